"""The steps of jobs with the usage that their nodes reported. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpdeck.controller.state.accounting import gpu_types
from warpdeck.controller.state.state import State
from warpdeck.model import Allocation, Job, ShareStatus
from warpdeck.model.step import Step, StepPart, StepShare
from warpdeck.policy import held_tres
from warpdeck.protocol.step_records import PartRecord, StepRecord

from .step_rows import BATCH, EXTERN, step_rows


def step_records(state: State, job: Job, steps: Sequence[Step]) -> list[StepRecord]:
    """Return the steps of the job's last start: batch, extern, and the steps that srun started."""
    own = {str(step.number): step for step in steps if step.restarts == job.restarts}
    found = []
    for row in step_rows(job, steps):
        name = row.id.rpartition(".")[2]
        step = own.get(name)
        if step is not None:
            made = StepRecord(
                row=row,
                tres=step_tres(job.allocation, step.shares),
                parts=_step_parts(step.shares, step.parts),
                layout=_layout(step.shares),
            )
        else:
            shares = () if name == EXTERN else job.shares[: row.nodes]
            parts = _job_parts(each.without_steps() if name == BATCH else each for each in shares)
            made = StepRecord(row=row, tres=_first_shares(state, job, row.nodes), parts=parts)
        found.append(made)
    return found


def _first_shares(state: State, job: Job, nodes: int) -> dict[str, int]:
    """Return the resources that the job holds on its first `nodes` nodes."""
    if job.allocation is None:
        return {}
    held = held_tres(Allocation(shares=job.allocation.shares[:nodes]), gpu_types(state, job), {})
    return {name: count for name, count in held.items() if count and name != "billing"}


def _job_parts(shares: Iterable[ShareStatus]) -> list[PartRecord]:
    return [
        PartRecord(
            node=part.node,
            cpu_seconds=part.cpu_seconds,
            system_s=part.system_s,
            peak_mem_bytes=part.peak_mem_bytes,
        )
        for part in shares
    ]


def step_tres(allocation: Allocation | None, shares: Iterable[StepShare]) -> dict[str, int]:
    """Return the resources that a step holds.

    Memory is the requested amount, or all of the job's memory, as in Slurm.
    """
    held = {share.node: share for share in (allocation.shares if allocation else ())}
    found = {"cpu": 0, "mem": 0, "node": 0, "gres/gpu": 0}
    for share in shares:
        whole = held.get(share.node)
        found["cpu"] += share.cpus
        found["gres/gpu"] += len(share.gpus)
        found["node"] += 1
        if whole is not None:
            found["mem"] += (share.mem_bytes or whole.mem_bytes) >> 20
    return {name: count for name, count in found.items() if count}


def _step_parts(shares: Sequence[StepShare], parts: Sequence[StepPart]) -> list[PartRecord]:
    ranks = {share.node: share.ranks for share in shares}
    return [
        PartRecord(
            node=part.node,
            tasks=len(ranks.get(part.node, ())),
            first_task=min(ranks.get(part.node, ()), default=0),
            cpu_seconds=part.cpu_seconds,
            system_s=part.system_s,
            peak_mem_bytes=part.peak_mem_bytes,
            spreads=part.spreads,
        )
        for part in parts
    ]


def _layout(shares: Sequence[StepShare]) -> str:
    """Return "Block" if the ranks of each node are consecutive, and "Cyclic" otherwise."""
    is_consecutive = all(
        share.ranks == tuple(range(share.ranks[0], share.ranks[-1] + 1)) for share in shares if share.ranks
    )
    return "Block" if is_consecutive else "Cyclic"
