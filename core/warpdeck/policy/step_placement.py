"""Placement of step tasks within a job's allocation, considering the resources that its running steps hold.

The rules are srun's. Without --exact a step takes its nodes as a whole, so that a second step waits. With
--exact it takes only the requested resources. With --overlap it takes nothing from other steps.

- Number of nodes: as many as the job has, at most one for each task.
- Number of tasks: as requested, else the number of the job.
- Tasks per node: if the number of tasks equals that of the job, they are distributed over the nodes like the
  tasks of the job. Otherwise they are distributed round-robin, or fill one node after the other
  (--distribution=Pack). Each node gets at least one.
- Ranks: assigned to the tasks in blocks, round-robin (cyclic), several at a time (plane), or by a list that
  names the node of each rank (arbitrary).

A step that can never run raises UserError. If other steps hold the resources now, the result is `Busy`; only
then does srun wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Allocation, GpuUuid, Resources, Share
from warpdeck.model.step import MAX_STEP_TASKS, Step, StepOptions, StepShare
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.policy.placement.distribution import distribute_cyclic, distribute_packed

NO_AMOUNT = 1 << 62
"""Memory of a job that requested none: it is not limited."""


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """The result if other steps hold the resources that this step needs. `steps` are their numbers."""

    steps: tuple[int, ...]


class StepLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen placement. The shares are in the job's order of nodes."""

    shares: tuple[StepShare, ...]
    cpus_per_task: int


class _Candidate(msgspec.Struct, kw_only=True):
    """Resources that a step can use on one node."""

    share: Share
    cpus: int
    mem_bytes: int
    gpus: tuple[int, ...]
    """Positions in the GPUs of the share."""
    holders: tuple[int, ...]


def lay_out(
    options: StepOptions, allocation: Allocation, *, job: Resources, running: Sequence[Step]
) -> StepLayout | Busy:
    """Return the layout of the step, or the steps that block it. Raises UserError for a request that this job
    can never satisfy.
    """
    empty = [_candidate(share, ()) for share in allocation.shares]
    best = _place(options, empty, job, most_nodes=len(empty))
    if isinstance(best, UserError):
        raise best
    _check_programs(options, sum(len(share.ranks) for share in best.shares))
    if options.overlap:
        return best
    holding = [step for step in running if step.holds and not step.is_finished]
    candidates = [_candidate(share, holding) for share in allocation.shares]
    if not options.exact:
        candidates = [candidate for candidate in candidates if not candidate.holders]
    found = _place(options, candidates, job, most_nodes=len(empty))
    if isinstance(found, UserError):
        nodes = {candidate.share.node for candidate in empty} & {*options.nodelist} or {
            candidate.share.node for candidate in empty
        }
        available = {step.number for step in holding if nodes & {*step.node_names()}}
        return Busy(steps=tuple(sorted(available or {step.number for step in holding})))
    return found


def _candidate(share: Share, holding: Sequence[Step]) -> _Candidate:
    cpus, mem_bytes, taken, holders = share.cpus, share.mem_bytes, set[int](), []
    for step in holding:
        for part in step.shares:
            if part.node == share.node:
                holders.append(step.number)
                cpus -= share.cpus if step.whole else part.cpus
                mem_bytes -= part.mem_bytes
                taken.update(share.gpus if step.whole else part.gpus)
    free = tuple(at for at, index in enumerate(share.gpus) if index not in taken)
    return _Candidate(
        share=share,
        cpus=max(0, cpus),
        mem_bytes=max(0, mem_bytes) if share.mem_bytes else NO_AMOUNT,
        gpus=free,
        holders=tuple(holders),
    )


def _place(
    options: StepOptions, candidates: list[_Candidate], job: Resources, *, most_nodes: int
) -> StepLayout | UserError:
    """Return the layout on these nodes, or the error that explains why there is none."""
    candidates = [candidate for candidate in candidates if candidate.share.node not in options.exclude]
    if options.relative is not None:
        candidates = candidates[options.relative :]
    missing = sorted({*options.nodelist} - {candidate.share.node for candidate in candidates})
    if missing:
        return _never(
            f"node {missing[0]} does not belong to the job, or cannot be used by this step",
            "see SLURM_JOB_NODELIST",
        )
    if listed := options.hosts or (options.nodelist if options.distribution == "arbitrary" else ()):
        return _as_listed(options, candidates, job, listed)
    requested_nodes = _node_count(options, most_nodes)
    tasks = _task_count(options, job, candidates, nodes=requested_nodes)
    if tasks > MAX_STEP_TASKS:
        return _never(
            f"{tasks:,} tasks exceed the limit of {MAX_STEP_TASKS:,} per step", "set fewer with srun -n"
        )
    nodes = min(requested_nodes, tasks)
    if nodes > len(candidates):
        return UserError(
            f"the step requests {nodes} nodes; {len(candidates)} are available",
            "request more for the job with sbatch -N",
            code="step_nodes",
            details={}
            if options.relative is not None
            else {"has": str(len(candidates)), "asked": str(nodes)},
        )
    each = _cpus_per_task(options, job, candidates, tasks)
    chosen = _choose(options, candidates, nodes, each)
    per_node = options.tasks_per_node or (job.tasks_per_node if options.tasks is None else None)
    if not chosen and all(
        _memory(options, candidate, each) > candidate.mem_bytes for candidate in candidates
    ):
        return _too_much_memory(options, candidates)
    counts = _counts(options, chosen, tasks, each, per_node=per_node)
    if counts is None:
        return _never(
            f"{tasks} tasks of {each} CPUs do not fit on {nodes} nodes; available: "
            + " + ".join(str(candidate.cpus) for candidate in candidates)
            + " CPUs",
            "request more for the job (-n, -c), use fewer in srun, or let tasks share CPUs with --overcommit",
            code="step_cpus",
        )
    plane = {"cyclic": 1, "plane": options.plane_size}.get(options.distribution, 0)
    return _shares(options, chosen, _ranks(counts, plane=plane), each)


def _as_listed(
    options: StepOptions, candidates: list[_Candidate], job: Resources, listed: Sequence[str]
) -> StepLayout | UserError:
    """Place each task on the node that the list names for its rank."""
    tasks = len(listed) if options.tasks is None else options.tasks
    if tasks > len(listed):
        return _never(
            f"{tasks} tasks, but the list of nodes has {len(listed)} entries", "list one node per task"
        )
    ranks: dict[str, list[int]] = {}
    for rank, node in enumerate(listed[:tasks]):
        ranks.setdefault(node, []).append(rank)
    chosen = [candidate for candidate in candidates if candidate.share.node in ranks]
    if missing := sorted(ranks.keys() - {candidate.share.node for candidate in chosen}):
        return _never(
            f"node {missing[0]} does not belong to the job, or cannot be used by this step",
            "see SLURM_JOB_NODELIST",
        )
    each = _cpus_per_task(options, job, candidates, tasks)
    for candidate in chosen:
        if len(ranks[candidate.share.node]) * each > candidate.cpus and not options.overcommit:
            return _never(
                f"{len(ranks[candidate.share.node])} tasks of {each} CPUs do not fit on {candidate.share.node}",
                "list it fewer times, or let tasks share CPUs with --overcommit",
                code="step_cpus",
            )
    return _shares(options, chosen, [tuple(ranks[candidate.share.node]) for candidate in chosen], each)


def _never(what: str, hint: str, *, code: str = "step_nodes") -> UserError:
    return UserError(what, hint, code=code)


def _node_count(options: StepOptions, most: int) -> int:
    """Return the number of nodes: as requested, else derived from the tasks per node, else as many as the job
    has.
    """
    if options.nodes_min is not None:
        return max(options.nodes_min, min(options.nodes_max or 0, most), len(options.nodelist))
    if options.nodelist:
        return len(options.nodelist)
    if options.tasks is not None and options.tasks_per_node is not None:
        return -(-options.tasks // options.tasks_per_node)
    return max(1, most - len(options.exclude) - (options.relative or 0))


def _check_programs(options: StepOptions, tasks: int) -> None:
    """Raise UserError if the --multi-prog file has no line for a task."""
    if not options.programs or not all(program.ranks for program in options.programs):
        return
    covered = 0
    for low, high in sorted(span for program in options.programs for span in program.ranks):
        if low <= covered:
            covered = max(covered, high + 1)
    if covered < tasks:
        raise UserError(
            f"Configuration file invalid, no record for task id {covered}",
            "add a line for that task; a line that begins with * covers all other tasks",
        )


def _task_count(options: StepOptions, job: Resources, candidates: list[_Candidate], *, nodes: int) -> int:
    if options.tasks is not None:
        return options.tasks
    if options.tasks_per_gpu is not None:
        return max(1, sum(len(candidate.gpus) for candidate in candidates[:nodes]) * options.tasks_per_gpu)
    if options.tasks_per_node is not None:
        return nodes * options.tasks_per_node
    if options.programs:
        return max((last + 1 for program in options.programs for _, last in program.ranks), default=nodes)
    if job.tasks is not None and not options.nodelist:
        return max(job.tasks, nodes)
    return nodes * (job.tasks_per_node or 1)


def _cpus_per_task(options: StepOptions, job: Resources, candidates: list[_Candidate], tasks: int) -> int:
    """Return the CPUs per task: as requested, else the job's own value, reduced if there are not enough CPUs
    for each task.
    """
    if options.cpus_per_task is not None:
        return options.cpus_per_task
    return max(1, min(job.cpus_per_task, sum(candidate.cpus for candidate in candidates) // max(1, tasks)))


def _choose(options: StepOptions, candidates: list[_Candidate], nodes: int, each: int) -> list[_Candidate]:
    """Return the first nodes that can hold a task. Named nodes take precedence over all others."""
    able = [
        candidate
        for candidate in candidates
        if (options.overcommit or candidate.cpus >= each)
        and _memory(options, candidate, each) <= candidate.mem_bytes
    ]
    named = [candidate for candidate in able if candidate.share.node in options.nodelist]
    others = [candidate for candidate in able if candidate.share.node not in options.nodelist]
    kept = {candidate.share.node for candidate in [*named, *others][:nodes]}
    chosen = [candidate for candidate in candidates if candidate.share.node in kept]
    return chosen if len(chosen) == nodes else []


def _counts(
    options: StepOptions, candidates: list[_Candidate], tasks: int, each: int, *, per_node: int | None
) -> list[int] | None:
    """Return the number of tasks on each node, or None if they do not fit."""
    if not candidates:
        return None
    most = [tasks if options.overcommit else candidate.cpus // each for candidate in candidates]
    if options.gpus is not None and options.gpus.per_task:
        most = [
            min(limit, len(candidate.gpus) // options.gpus.per_task)
            for limit, candidate in zip(most, candidates, strict=True)
        ]
    if per_node is not None:
        most = [min(limit, per_node) for limit in most]
    own = [candidate.share.tasks for candidate in candidates]
    if (
        not options.packed
        and sum(own) == tasks
        and all(count <= limit for count, limit in zip(own, most, strict=True))
    ):
        return own
    if sum(most) < tasks or min(most) < 1:
        return None
    if options.packed:
        return distribute_packed(most, tasks)
    return distribute_cyclic(
        most,
        tasks,
        each=options.plane_size if options.distribution == "plane" and tasks > len(candidates) else 1,
    )


def _ranks(counts: list[int], *, plane: int) -> list[tuple[int, ...]]:
    """Return the ranks on each node: consecutive, or round-robin in groups of `plane` (0: all at once)."""
    ranks: list[list[int]] = [[] for _ in counts]
    rank, tasks = 0, sum(counts)
    while rank < tasks:
        for at, count in enumerate(counts):
            here = min(plane or count, count - len(ranks[at]))
            ranks[at] += range(rank, rank + here)
            rank += here
    return [tuple(each) for each in ranks]


def _shares(
    options: StepOptions, candidates: list[_Candidate], placed: list[tuple[int, ...]], each: int
) -> StepLayout | UserError:
    """Return the layout for the ranks that were placed on each node (`placed`)."""
    gpus = _gpus(options, candidates, [len(ranks) for ranks in placed])
    if isinstance(gpus, UserError):
        return gpus
    memory = [
        _memory(options, candidate, len(ranks) * each, gpus=len(got))
        for candidate, ranks, got in zip(candidates, placed, gpus, strict=True)
    ]
    if any(requested > candidate.mem_bytes for requested, candidate in zip(memory, candidates, strict=True)):
        return _too_much_memory(options, candidates)
    shares = []
    for candidate, ranks, got, requested in zip(candidates, placed, gpus, memory, strict=True):
        share, count = candidate.share, len(ranks)
        shares.append(
            StepShare(
                node=share.node,
                ranks=ranks,
                cpus=min(candidate.cpus, count * each) if options.exact else candidate.cpus,
                mem_bytes=requested,
                gpus=tuple(share.gpus[at] for at in got),
                gpu_uuids=tuple(GpuUuid(share.gpu_uuids[at]) for at in got),
                task_gpus=_task_gpus(options, count, len(got)),
            )
        )
    return StepLayout(shares=tuple(shares), cpus_per_task=each)


def _memory(options: StepOptions, candidate: _Candidate, cpus: int, *, gpus: int = 0) -> int:
    """Return the memory that the step takes on a node where its tasks use this many CPUs; 0 if it requests no
    amount.

    As in Slurm, a step that has whole nodes is charged for all of their CPUs, but for no more memory than is
    available.
    """
    if options.mem_per_cpu_bytes is not None:
        all_cpus = cpus if options.exact else candidate.share.cpus
        return max(
            cpus * options.mem_per_cpu_bytes, min(all_cpus * options.mem_per_cpu_bytes, candidate.mem_bytes)
        )
    if options.mem_per_gpu_bytes is not None:
        return gpus * options.mem_per_gpu_bytes
    return options.mem_per_node_bytes or 0


def _too_much_memory(options: StepOptions, candidates: list[_Candidate]) -> UserError:
    amounts = {
        " per CPU": options.mem_per_cpu_bytes,
        " per GPU": options.mem_per_gpu_bytes,
        "": options.mem_per_node_bytes,
    }
    each, requested = next((unit, format_memory(amount)) for unit, amount in amounts.items() if amount)
    return _never(
        f"the step requests {requested} of memory{each}; available on its nodes: "
        + " + ".join(format_memory(candidate.mem_bytes) for candidate in candidates),
        "request more for the job (sbatch --mem), or less in srun",
        code="step_mem",
    )


def _gpus(
    options: StepOptions, candidates: list[_Candidate], counts: list[int]
) -> list[tuple[int, ...]] | UserError:
    """Return the GPUs that the step gets on each node, as positions in the share's GPUs."""
    gpus = options.gpus
    if gpus is None:
        short = options.exact and any(
            len(candidate.gpus) < len(candidate.share.gpus) for candidate in candidates
        )
        return _too_few(candidates) if short else [candidate.gpus for candidate in candidates]
    if gpus.per_task is not None:
        needs = [count * gpus.per_task for count in counts]
    elif gpus.per_node is not None:
        needs = [gpus.per_node] * len(candidates)
    elif gpus.total is not None:
        needs = _spread(gpus.total, [len(candidate.gpus) for candidate in candidates])
    else:
        needs = [len(candidate.gpus) for candidate in candidates]
    if any(need > len(candidate.gpus) for need, candidate in zip(needs, candidates, strict=True)):
        return _too_few(candidates)
    return [candidate.gpus[:need] for need, candidate in zip(needs, candidates, strict=True)]


def _too_few(candidates: list[_Candidate]) -> UserError:
    have = " + ".join(str(len(candidate.gpus)) for candidate in candidates)
    return _never(
        f"the step requests more GPUs than its nodes have: {have}",
        "request more for the job with --gpus",
        code="step_gpus",
    )


def _spread(total: int, have: list[int]) -> list[int]:
    """Distribute a total over the nodes as evenly as possible."""
    needs = [0] * len(have)
    while total:
        open_nodes = [at for at, count in enumerate(have) if needs[at] < count]
        if not open_nodes:
            # The nodes have fewer than requested, so return a count that fails the following check.
            return [count + 1 for count in have]
        for at in open_nodes[:total]:
            needs[at] += 1
            total -= 1
    return needs


def _task_gpus(options: StepOptions, tasks: int, gpus: int) -> tuple[tuple[int, ...], ...]:
    """Return each task's GPUs if tasks are bound to GPUs; () if each task sees all of them."""
    kind, _, value = options.gpu_bind.partition(":")
    if not gpus or kind in ("none", "closest"):
        return ()
    if kind == "map_gpu":
        named = [int(word) % gpus for word in value.split(",") if word.isdecimal()]
        return tuple((named[at % len(named)],) for at in range(tasks)) if named else ()
    if kind == "single":
        per = max(1, int(value)) if value.isdecimal() else 1
        return tuple(((at // per) % gpus,) for at in range(tasks))
    each = (
        int(value)
        if kind == "per_task" and value.isdecimal()
        else options.gpus.per_task
        if options.gpus
        else None
    )
    if not each:
        return ()
    return tuple(
        tuple((at * each + offset) % gpus for offset in range(min(each, gpus))) for at in range(tasks)
    )
