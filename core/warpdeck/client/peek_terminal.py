"""What a session's terminal has shown, without joining it: read as a watcher reads, who changes nothing."""

from __future__ import annotations

import time
from typing import NamedTuple

from warpdeck.base.errors import UserError

from .blocking_client import SyncClient

QUIET_S = 0.2
"""After so long without more, what there was has come."""
MOST_S = 3.0
"""Of a terminal that never stops writing, or a job that does not start."""


class Glance(NamedTuple):
    """`offset`: where the next look goes on."""

    data: bytes
    offset: int


def glance(client: SyncClient, job: str, *, offset: int = 0) -> Glance:
    """What it has written from `offset` on, as far as it is kept. Raises UserError where there is no terminal to look at."""
    number = client.begin("attach", job=job, watch=True, offset=offset)
    deadline = time.monotonic() + MOST_S
    opened: int | None = None
    found: list[bytes] = []
    try:
        while time.monotonic() < deadline:
            wait_s = MOST_S if opened is None else QUIET_S
            events = list(client.events(number, timeout_s=wait_s))
            if not events and opened is not None:
                break
            for word, value in events:
                if word == "ok":
                    opened = int(value["offset"])
                elif word == "data":
                    found.append(value)
                elif word == "end":
                    return _told(found, opened)
        return _told(found, opened)
    finally:
        client.tell("close", stream=number)


def _told(found: list[bytes], opened: int | None) -> Glance:
    if opened is None:
        raise UserError("its terminal cannot be seen yet", "it begins when the job runs")
    data = b"".join(found)
    return Glance(data, opened + len(data))
