"""Reads the recent output of a job's terminal without joining it. Like `warpdeck attach --watch`, it changes nothing."""

from __future__ import annotations

import time
from typing import NamedTuple

from warpdeck.base.errors import UserError

from .blocking_client import SyncClient

QUIET_S = 0.2
"""Seconds without further data after which the stored output counts as complete."""
MOST_S = 3.0
"""Maximum seconds to read, in case a terminal never stops writing or a job does not start."""


class Glance(NamedTuple):
    """Output of a terminal. The next read continues at `offset`."""

    data: bytes
    offset: int


def glance(client: SyncClient, job: str, *, offset: int = 0) -> Glance:
    """Return the terminal's output from `offset` on, as far as it is kept.

    Raises UserError if there is no terminal.
    """
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
        raise UserError("the terminal is not available yet", "it opens when the job starts")
    data = b"".join(found)
    return Glance(data, opened + len(data))
