"""Requests the snapshot of a job's code from the user's recorder (client/snapshot_recorder), which is started if necessary.

The thin client of sbatch uses this module, so it imports next to nothing.
"""

from __future__ import annotations

import os

from warpdeck.base.background_process import start
from warpdeck.base.paths import Paths
from warpdeck_agent.client.access import connect_path
from warpdeck_agent.wire import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ANSWER_S = 2.0
"""Time in seconds in which a recorder confirms a request; the confirming thread does nothing else."""


def order(paths: Paths, jobs: Sequence[int], folder: str) -> str:
    """Request a snapshot and return once the request is accepted. Return the reason for a failure, or ""."""
    line = jsontext.dumps({"jobs": list(jobs), "folder": folder}) + "\n"
    try:
        if not hand_over(paths, line):
            # The folder is created here, where a failure can be reported.
            os.makedirs(paths.recorder, mode=0o700, exist_ok=True)
            start("warpdeck.client.snapshot_recorder", paths.home, line)
    except OSError as error:
        return f"no snapshot: the recorder cannot be started: {error.strerror or error}"
    return ""


def order_or_tell(paths: Paths, jobs: Sequence[int], folder: str) -> None:
    """Request a snapshot, and report a failure to the controller so that the jobs need not wait.

    Raises UserError.
    """
    note = order(paths, jobs, folder)
    if note:
        from .blocking_client import SyncClient  # This import takes milliseconds and is rarely needed.

        with SyncClient.connect(paths, start=False) as client:
            client.call("code_recorded", jobs=[str(job) for job in jobs], note=note)


def hand_over(paths: Paths, line: str) -> bool:
    """Return whether a running recorder accepted the request."""
    try:
        link = connect_path(socket_of(paths))
    except OSError:
        return False
    try:
        link.settimeout(ANSWER_S)
        link.sendall(line.encode())
        return bool(link.recv(1))
    except OSError:
        return False
    finally:
        link.close()


def socket_of(paths: Paths) -> str:
    """Return the path of this machine's socket, because other machines may share the folder."""
    return os.path.join(paths.recorder, f"{os.uname().nodename}.sock")
