"""Fields of a job's step: one entry each for squeue -s, scontrol, sacct and sstat. Pure functions.

A row holds the columns of the controller's `StepRow`, and some of its job: those of `LiveStep` in squeue, those of
`step_row` elsewhere.
"""

from __future__ import annotations

from .field import Field, Row, columns, sent
from .job_states import shown_exit

SIGNALLED = frozenset({"FAILED", "TIMEOUT", "PREEMPTED"})
"""States of our steps that were ended by a signal. sacct shows all of them as CANCELLED."""


def step_row(step: Row, job: Row) -> Row:
    """Return the row of a `StepRecord`: its columns, and those columns of its job that a step does not have itself."""
    own = {"tres": step["tres"], "layout": step["layout"], "parts": step["parts"]}
    of_job = {"job_id": job["id"], "job_state": job["state"], "exit_cause": "", "ended_by_uid": None}
    return {**job, **of_job, **step["row"], **own}


def step_name(row: Row) -> str:
    """Return the step's number, or the name of a step that srun did not start, such as batch."""
    return str(row["id"]).rpartition(".")[2]


def is_sruns(row: Row) -> bool:
    """Return whether srun started the step. Only these steps have a number."""
    return step_name(row).isdecimal()


def recorded_step_state(row: Row) -> str:
    """Return the state of a step in the accounting. A step that a signal ended is shown as cancelled."""
    by_signal = row["exit_code"] and not row["exit_code"].endswith(":0")
    return "CANCELLED" if by_signal and row["state"] in SIGNALLED else str(row["state"])


def _array(row: Row) -> int:
    """Return the array's job ID, or 0 if the job is no array task."""
    return 0 if row["array_task_id"] is None else row["array_job_id"]


STEP: dict[str, Field] = {
    **columns("array_task_id batch_host partition uid user"),
    **sent("cpus id job_id layout name node_list nodes start state tasks tres"),
    "array_job_id": Field("array_job_id array_task_id", _array),
    "exit_code": Field("", shown_exit),
    "recorded_state": Field("", recorded_step_state),
}
"""Field -> its entry. It needs columns of the step's job only, because the controller sends whole records of steps."""
