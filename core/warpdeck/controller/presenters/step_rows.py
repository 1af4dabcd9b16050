"""The steps of a job as rows in sacct's terms.

Steps such as 12.0 come from the store. The steps 12.batch and 12.extern are derived from the job. All
functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from warpdeck.model import ExitStatus, Job, JobState
from warpdeck.model.step import Step
from warpdeck.notation.values.hostlist import collapse
from warpdeck.protocol.job_rows import LiveStep, StepRow

from .job_values import partition_of
from .usage_rows import use_of

if TYPE_CHECKING:
    from warpdeck.controller.state.state import State

BATCH, EXTERN = "batch", "extern"


class StepFilter(Protocol):
    """The conditions of a request for steps on the jobs to which the steps belong."""

    def has(self, job: Job) -> bool: ...


def step_rows(job: Job, steps: Sequence[Step]) -> list[StepRow]:
    """Return the steps of the job's last start. The job's own steps come first, as in sacct."""
    if job.start_at_unix is None or job.allocation is None:
        return []
    rows = [_batch(job)] if job.request.script else []
    rows.append(_own(job, EXTERN, nodes=len(job.allocation.shares), ended=ExitStatus()))
    if job.request.argv:
        rows.append(_command(job))
    return rows + [_row(job, step) for step in steps if step.restarts == job.restarts]


def live_steps(state: State, step_filter: StepFilter) -> list[LiveStep]:
    """Return the running steps of the selected jobs, ordered by job and step."""
    found = []
    for job_id in sorted(state.index.active):
        job = state.jobs[job_id]
        if job.start_at_unix is not None and step_filter.has(job):
            steps = state.steps.get(job_id, {})
            rows = step_rows(job, [steps[number] for number in sorted(steps)])
            found += [_live(job, row) for row in rows if row.end is None and row.name != EXTERN]
    return found


def _live(job: Job, row: StepRow) -> LiveStep:
    return LiveStep(
        row=row,
        job_id=job.id,
        array_job_id=job.family_id,
        array_task_id=job.array_task_id,
        user=job.user,
        uid=job.uid,
        partition=partition_of(job),
    )


def _own(job: Job, name: str, *, nodes: int, ended: ExitStatus | None) -> StepRow:
    assert job.allocation is not None and job.start_at_unix is not None
    shares = job.allocation.shares[:nodes]
    over = job.end_at_unix is not None
    worst = ended if ended is not None else ExitStatus(code=1, cause="unknown")
    good = JobState.COMPLETED if (worst.code, worst.signal) == (0, 0) else JobState.FAILED
    state = job.state if name != EXTERN and job.state is not JobState.RUNNING else good
    return StepRow(
        id=f"{job.label()}.{name}",
        name=name,
        state=(state if over else JobState.RUNNING).value,
        start=job.start_at_unix,
        end=job.end_at_unix,
        exit_code=str(worst) if over else "",
        tasks=len(shares),
        nodes=len(shares),
        node_list=collapse([share.node for share in shares]),
        cpus=sum(share.cpus for share in shares),
        gpus=sum(len(share.gpus) for share in shares),
    )


def _batch(job: Job) -> StepRow:
    first = (
        job.shares[0] if job.shares else None
    )  # Slurm tells the usage of a job a moment after its end, or never.
    row = _own(job, BATCH, nodes=1, ended=first.exit if first else job.exit)
    row.used = use_of([first.without_steps()]) if first else None
    return row


def _command(job: Job) -> StepRow:
    """Return the row of step 0 of a job that runs a command and was submitted without a script or srun."""
    assert job.allocation is not None
    row = _own(job, "0", nodes=len(job.allocation.shares), ended=job.exit)
    row.name, row.tasks = job.request.name, sum(share.tasks for share in job.allocation.shares)
    row.used = use_of(job.shares) if job.shares else None
    return row


def _row(job: Job, step: Step) -> StepRow:
    return StepRow(
        id=f"{job.label()}.{step.number}",
        name=step.name,
        state=step.state.value,
        start=step.start_at_unix,
        end=step.end_at_unix,
        exit_code=str(step.exit) if step.exit is not None else "",
        tasks=step.task_count(),
        nodes=len(step.shares),
        node_list=collapse(step.node_names()),
        cpus=sum(share.cpus for share in step.shares),
        gpus=sum(len(share.gpus) for share in step.shares),
        used=use_of(step.parts) if step.is_finished else None,
        message=step.exit.message if step.exit is not None else "",
    )
