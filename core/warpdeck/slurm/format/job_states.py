"""States of jobs as squeue spells them, long and short, with those that no job of ours is ever in."""

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
"""All states that may be asked for, in the order of squeue's message."""
OURS = frozenset(list(CODES)[:14])
"""States that our jobs can be in; of the others there are none."""
SPECIAL = frozenset({"RESV_DEL_HOLD", "SPECIAL_EXIT"})
"""What some of those are that wait."""
STATE_FIELDS = "state reason special_exit"
ENDED = frozenset(list(CODES)[3:12])


_OUT_OF_MEMORY = "0:125"
"""In the place of the signal a number that no signal has: SIG_OOM in slurm.h."""


def told_exit(row: Mapping[str, Any]) -> str:
    """The end of a job, or of a step, as code:signal. Of what has run out of memory it does not say how that ended it."""
    return _OUT_OF_MEMORY if row["state"] == "OUT_OF_MEMORY" else row["exit_code"] or "0:0"


def told_state(row: Mapping[str, Any]) -> str:
    """The state as a listing has it, which tells jobs apart that are held because their reservation is over, or for whoever
    requeued them. Of the row it needs STATE_FIELDS."""
    if row["special_exit"]:
        return "SPECIAL_EXIT"
    lost = row["state"] == "PENDING" and row["reason"].startswith("Reservation ")
    return "RESV_DEL_HOLD" if lost else str(row["state"])
