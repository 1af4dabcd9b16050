"""Job states in squeue's long and short spelling, including states that our jobs never have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CODES = {
    "PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S", "COMPLETED": "CD", "CANCELLED": "CA", "FAILED": "F",
    "TIMEOUT": "TO", "NODE_FAIL": "NF", "PREEMPTED": "PR", "BOOT_FAIL": "BF", "DEADLINE": "DL", "OUT_OF_MEMORY": "OOM",
    "COMPLETING": "CG", "CONFIGURING": "CF", "RESIZING": "RS", "RESV_DEL_HOLD": "RD", "REQUEUED": "RQ",
    "REQUEUE_FED": "RF", "REQUEUE_HOLD": "RH", "REVOKED": "RV", "SIGNALING": "SI", "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO", "STOPPED": "ST",
}  # fmt: skip
"""All states that a user may request, in the order of squeue's error message."""
OURS = frozenset(list(CODES)[:14])
"""States that our jobs can have."""
SPECIAL = frozenset({"RESV_DEL_HOLD", "SPECIAL_EXIT"})
"""States that listings show instead of PENDING for some held jobs."""
STATE_FIELDS = "state reason special_exit"
ENDED = frozenset(list(CODES)[3:12])


_OUT_OF_MEMORY = "0:125"
"""Exit code shown for jobs that ran out of memory.

Its signal number is SIG_OOM of slurm.h, which is no real signal.
"""


def shown_exit(row: Mapping[str, Any]) -> str:
    """Return the exit code of a job or step as code:signal.

    It is always 0:125 if the job or step ran out of memory.
    """
    return _OUT_OF_MEMORY if row["state"] == "OUT_OF_MEMORY" else row["exit_code"] or "0:0"


def shown_state(row: Mapping[str, Any]) -> str:
    """Return the state that listings show.

    It distinguishes pending jobs that are held because their reservation ended, or because they were requeued
    into a hold. The row needs the columns of STATE_FIELDS.
    """
    if row["special_exit"]:
        return "SPECIAL_EXIT"
    lost = row["state"] == "PENDING" and row["reason"].startswith("Reservation ")
    return "RESV_DEL_HOLD" if lost else str(row["state"])
