"""Waits for the end of a submission as sbatch --wait does, even if the controller restarts meanwhile.

The controller reports each end, also of tasks that ended long ago or while no client was connected. It also
reports when nothing is left to wait for (see controller/loop/end_waiters). If the connection is lost, the request is
repeated on a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError

from .away import wait_until_back
from .blocking_client import GONE, SyncClient
from .outages import LOOK_S, OutageNotes

FIELDS = ("id", "exit_code", "state")


class JobEnd(NamedTuple):
    """End of a job, or of a task of an array."""

    code: int
    signal: int
    state: str


def wait_for_end(
    client: SyncClient, job_id: int, *, again: Callable[[], SyncClient], note: Callable[[str], None]
) -> list[JobEnd]:
    """Wait until the job, or every task of the array, has ended and its output has arrived. Raises UserError.

    Returns the end of each job; the code is 1 if the job is unknown. If the controller goes away, `again`
    connects once more, and `note` is called if that takes a while, or if Slurm does not answer. The client is closed.
    """
    outages = OutageNotes(note)
    while True:
        try:
            with client:
                return _ended(client, job_id, outages)
        except UserError as error:
            if error.code != GONE:
                raise
        client = wait_until_back(again, note, daemon=client.daemon)


def _ended(client: SyncClient, job_id: int, outages: OutageNotes) -> list[JobEnd]:
    """Wait for the ends on this connection.

    After a lost connection the whole request can simply be repeated.
    """
    number = client.begin("await_ends", jobs=[job_id], fields=FIELDS)
    rows: dict[int, dict[str, Any]] = {}
    done = False
    while not done:
        for word, message in client.events(number, timeout_s=LOOK_S):
            if word == "ends":
                rows.update({row["id"]: row for row in message["ended"]})
                done = job_id in message["done"]
        outages.look(client)
    client.call("settle", job=job_id)
    return [_end(rows[key]) for key in sorted(rows)] or [JobEnd(1, 0, "")]


def _end(row: dict[str, Any]) -> JobEnd:
    """Return the exit code, signal and state of a job row. The row holds the exit code as "code:signal".

    Slurm reports 0:0 for a job that was canceled before it ran, and for an end that nobody saw. Neither is a success.
    """
    code, _, signal = str(row["exit_code"] or "1:0").partition(":")
    number, killed_by, state = int(code), int(signal or 0), str(row["state"])
    if not number and not killed_by and state != "COMPLETED":
        number = 1
    return JobEnd(number, killed_by, state)
