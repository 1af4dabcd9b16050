"""The end of a submission, waited for as sbatch --wait does: whatever becomes of the controller meanwhile.

Its unfinished jobs are watched; once there are none, the exit codes are read from the records, which know tasks that ended long
ago or while nobody looked, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.errors import UserError

from .sync import GONE, SyncClient

RETRY_S = 1.0
"""Between attempts while the controller is away."""
FIELDS = ("id", "exit_code", "state")


class End(NamedTuple):
    """Of a job, or of a task of an array."""

    code: int
    signal: int
    state: str


def wait_for_end(
    client: SyncClient, job_id: int, *, again: Callable[[], SyncClient], note: Callable[[str], None]
) -> list[End]:
    """Waits until the job, or every task of the array, has ended, and what it wrote is here: the end of each; of one that is not
    known the code is 1.

    A controller that went away is waited for: `again` connects once more, and `note` is told where that takes a while. The client
    is closed. Raises UserError.
    """
    while True:
        try:
            with client:
                return _ended(client, job_id)
        except UserError as error:
            if error.code != GONE:
                raise
        client = _connected(again, note)


def _connected(again: Callable[[], SyncClient], note: Callable[[str], None]) -> SyncClient:
    told = False
    while True:
        try:
            return again()
        except UserError as error:
            if error.code != GONE:
                raise
        if not told:
            note("waiting: the controller went away")
            told = True
        time.sleep(RETRY_S)


def _ended(client: SyncClient, job_id: int) -> list[End]:
    number = client.begin("subscribe", topics=["jobs"], user=client.welcome["user"])
    rows: dict[int, dict[str, Any]] = {}
    ready = False
    while not ready or not all(row["end"] for row in rows.values()):
        for word, message in client.events(number):
            if word == "delta":
                ready = ready or bool(message["ready"])
                rows.update({row["id"]: row for row in message["jobs"] if row["array_job_id"] == job_id})
    client.call("settle", job=job_id)
    known = client.call("records", ids=[str(job_id)], ended=True, fields=FIELDS)["jobs"]
    return [_end(row) for row in known] or [End(1, 0, "")]


def _end(row: dict[str, Any]) -> End:
    """Of a record, whose exit code is "code:signal"."""
    code, _, signal = str(row["exit_code"] or "1:0").partition(":")
    return End(int(code), int(signal or 0), str(row["state"]))
