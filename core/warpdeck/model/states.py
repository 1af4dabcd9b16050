"""Job states and the table of transitions between them. Names and two-letter codes are Slurm's
(squeue(1)).
"""

from enum import StrEnum

from warpdeck.base.errors import UserError


class JobState(StrEnum):
    """Slurm's job states. CONFIGURING means that the launch is committed but not yet confirmed by every node
    of the job.
    """

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    DEADLINE = "DEADLINE"
    BOOT_FAIL = "BOOT_FAIL"
    SUSPENDED = "SUSPENDED"


COMPACT: dict[JobState, str] = {
    JobState.PENDING: "PD",
    JobState.CONFIGURING: "CF",
    JobState.RUNNING: "R",
    JobState.COMPLETING: "CG",
    JobState.COMPLETED: "CD",
    JobState.CANCELLED: "CA",
    JobState.FAILED: "F",
    JobState.TIMEOUT: "TO",
    JobState.NODE_FAIL: "NF",
    JobState.OUT_OF_MEMORY: "OOM",
    JobState.PREEMPTED: "PR",
    JobState.DEADLINE: "DL",
    JobState.BOOT_FAIL: "BF",
    JobState.SUSPENDED: "S",
}
"""The short codes that squeue prints."""

FINISHED = frozenset(
    {
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.OUT_OF_MEMORY,
        JobState.PREEMPTED,
        JobState.DEADLINE,
        JobState.BOOT_FAIL,
    }
)
"""States of a finished job. Only an explicit requeue changes them."""

BY_ITSELF = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY})
"""Final states from which a run time can be learned, because the job ended by itself or at its limits."""

HOLDS_RESOURCES = frozenset({JobState.CONFIGURING, JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED})
"""The states in which a job holds its allocation."""

_LIVE_ENDS = FINISHED | {JobState.COMPLETING, JobState.PENDING}

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.PENDING: frozenset(
        {JobState.CONFIGURING, JobState.CANCELLED, JobState.DEADLINE, JobState.FAILED}
    ),
    JobState.CONFIGURING: _LIVE_ENDS | {JobState.RUNNING},
    JobState.RUNNING: _LIVE_ENDS | {JobState.SUSPENDED},
    JobState.SUSPENDED: _LIVE_ENDS | {JobState.RUNNING},
    JobState.COMPLETING: FINISHED | {JobState.PENDING},
    **{state: frozenset({JobState.PENDING}) for state in FINISHED},
}
"""State -> the states that can follow it. A transition back to PENDING is a requeue."""


def may_become(state: JobState, target: JobState) -> bool:
    """Return whether the table allows a transition from `state` to `target`."""
    return target in TRANSITIONS[state]


def state_named(word: str) -> JobState:
    """Return the state with this name or squeue code, in upper or lower case.

    Raises UserError if there is no such state.
    """
    name = word.upper()
    for state, code in COMPACT.items():
        if name in (state.value, code):
            return state
    raise UserError(
        f"there is no job state {word!r}", "write one of " + ", ".join(state.value for state in JobState)
    )
