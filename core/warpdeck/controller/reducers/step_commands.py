"""Handlers for job steps: requests, reports and ends.

policy.step_placement places a step on the resources of its job that other steps leave free. A step ends when
all its nodes have reported the ends of all their tasks. A task with an end that cannot be reported any more
counts as ended with code 1. The end of a job ends its steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Effect, Outcome
from warpdeck.controller.events.events import (
    ForgetStep,
    KillStep,
    LaunchStep,
    StepEndRequested,
    StepReported,
    StepRequested,
)
from warpdeck.controller.events.step_events import World
from warpdeck.controller.launch.node_aliases import our_names
from warpdeck.controller.state.measurements import to_curve, to_spreads, to_usage
from warpdeck.controller.state.state import State, replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import ExitStatus, Job, JobCurve, JobId, JobState, Link, NodeName
from warpdeck.model.step import Step, StepPart, StepShare, TaskEnd
from warpdeck.policy.step_placement import Busy, StepLayout, lay_out
from warpdeck.ports.caller import NOT_YOURS, may_access, may_control, owner_text
from warpdeck_agent.wire import steps as wire

from .allocations import release
from .node_failures import drain_until_passed

STARTING = "starting"
"""Error code for a job that is just starting. The client retries and shows no message."""
EXPIRED = "expired"
"""Error code for a job that has ended."""
BUSY = "busy"
"""Error code if resources are in use by other steps. The client waits and retries."""
MAX_STEPS = 100_000
"""Maximum number of steps of one start of a job, about twice Slurm's limit.

Each step leaves a permanent row in the store.
"""
_STATE_OF_CAUSE = {
    "cancelled": JobState.CANCELLED,
    "timeout": JobState.TIMEOUT,
    "node_fail": JobState.NODE_FAIL,
}

_ENCODER = msgspec.msgpack.Encoder()
_ASKED = msgspec.msgpack.Decoder(StepRequested)


def plan_step(state: State, event: StepRequested) -> StepLayout:
    """Return the layout that the step would get now.

    Raises UserError; its code is `BUSY` or `STARTING` if a later attempt may succeed.
    """
    job = state.jobs.get(event.job_id)
    if job is None:
        raise UserError(f"job {event.job_id} is not known", "see `warpdeck queue`", code="not_found")
    if not may_access(event.principal, job):
        raise UserError(
            f"job {job.label()} belongs to {owner_text(event.principal, job)}",
            "only its owner may start steps in it",
            code=NOT_YOURS,
        )
    _check_runs(job)
    assert job.allocation is not None
    nodelist = our_names(event.options.nodelist, job.allocation.node_names(), state.nodes)
    found = lay_out(
        msgspec.structs.replace(event.options, nodelist=nodelist)
        if nodelist != event.options.nodelist
        else event.options,
        job.allocation,
        job=job.request.resources,
        running=list(state.steps.get(job.id, {}).values()),
    )
    if isinstance(found, Busy):
        raise UserError(
            f"Job {job.id} step creation temporarily disabled, retrying (Requested nodes are busy)",
            "other steps use them; share them with --overlap, or request fewer with --exact",
            code=BUSY,
            details={"steps": ",".join(f"{job.id}.{number}" for number in found.steps)},
        )
    unreachable = [
        share.node for share in found.shares if state.node_status.links.get(share.node) is not Link.UP
    ]
    if unreachable:
        raise UserError(f"node {unreachable[0]} does not answer", "it is retried", code=BUSY)
    return found


def _check_runs(job: Job) -> None:
    if job.is_finished:
        raise UserError(f"job {job.label()} has ended ({job.state})", "see `warpdeck queue`", code=EXPIRED)
    if job.state is JobState.COMPLETING:
        raise UserError(f"job {job.label()} has ended ({job.state})", "see `warpdeck queue`")
    if job.state is JobState.SUSPENDED:
        raise UserError(f"job {job.label()} is suspended", "it is retried", code=BUSY)
    if job.state is not JobState.RUNNING:
        code = STARTING if job.state is JobState.CONFIGURING else BUSY
        raise UserError(f"job {job.label()} is not running yet ({job.state})", "it is retried", code=code)


def request_step(txn: Transaction, event: StepRequested) -> Outcome:
    """Create a step if its resources are free.

    For several components, create one step in each component, all with the same number. Step numbers of a
    heterogeneous job are counted over all its components.
    """
    made = created_before(txn.state, event)
    if made is not None:
        return Outcome(step=made, replan=False)
    events = (event, *event.others)
    layouts = [plan_step(txn.state, each) for each in events]
    jobs = [txn.state.jobs[each.job_id] for each in events]
    if layouts[0].shares[0].node != event.first:
        raise UserError("its first node is in use", "it is retried", code=BUSY)
    first = jobs[0]
    members = jobs if first.component is None else txn.state.array_members(first.array_job_id)
    number = max(job.steps_made for job in members)
    if number >= MAX_STEPS:
        raise UserError(
            f"job {jobs[0].label()} has reached the maximum of {MAX_STEPS:,} steps",
            "start several tasks with one srun",
        )
    component_jobs = tuple(job.id for job in jobs) if len(jobs) > 1 else ()
    tasks = sum(len(share.ranks) for layout in layouts for share in layout.shares)
    effects: list[Effect] = []
    for each, layout in zip(with_world(events, layouts), layouts, strict=True):
        first_rank = 0 if each.world is None else sum(each.world.tasks[: each.world.at])
        each = _with_input(each, tasks)
        step = _make(txn, each, layout, number, first_rank=first_rank, component_jobs=component_jobs)
        effects += [
            LaunchStep(node=share.node, job_id=step.job_id, number=number, request=each)
            for share in step.shares
        ]
    return Outcome(effects=tuple(effects), step=find_step(txn.state, event.job_id, number), replan=False)


def created_before(state: State, event: StepRequested) -> Step | None:
    """Return the running or recently ended step that an earlier copy of this request created.

    Returns None if there is none.
    """
    job = state.jobs.get(event.job_id)
    if not event.nonce or job is None or not may_access(event.principal, job):
        return None
    steps = state.steps.get(event.job_id, {}).values()
    return next((step for step in steps if step.nonce == event.nonce), None)


def with_world(events: Sequence[StepRequested], layouts: Sequence[StepLayout]) -> list[StepRequested]:
    """Return the requests for one step, each with the nodes and task counts of all components."""
    if len(events) == 1:
        return [*events]
    shares = [share for layout in layouts for share in layout.shares]
    world = World(
        nodes=tuple(share.node for share in shares), tasks=tuple(len(share.ranks) for share in shares)
    )
    found, at = list[StepRequested](), 0
    for event, layout in zip(events, layouts, strict=True):
        found.append(replace(event, others=(), port=events[0].port, world=replace(world, at=at)))
        at += len(layout.shares)
    return found


def _make(
    txn: Transaction,
    event: StepRequested,
    layout: StepLayout,
    number: int,
    *,
    first_rank: int,
    component_jobs: tuple[JobId, ...],
) -> Step:
    job, requested = txn.state.jobs[event.job_id], event.options
    txn.put_job(replace(job, steps_made=number + 1))
    shares = layout.shares
    if first_rank:
        shares = tuple(
            replace(share, ranks=tuple(rank + first_rank for rank in share.ranks)) for share in shares
        )
    step = Step(
        job_id=job.id,
        restarts=job.restarts,
        number=number,
        name=requested.name,
        cpus_per_task=layout.cpus_per_task,
        holds=not requested.overlap,
        whole=not requested.exact,
        kill_on_bad_exit=requested.kill_on_bad_exit,
        caller=event.caller,
        nonce=event.nonce,
        encoded_request=_ENCODER.encode(event),
        component_jobs=component_jobs,
        shares=shares,
        parts=tuple(StepPart(node=share.node) for share in shares),
        start_at_unix=txn.now,
    )
    txn.put_step(step)
    return step


def whole_step(state: State, step: Step) -> list[Step]:
    """Return the step and the steps of other components that srun started with it, ordered by rank."""
    found = [find_step(state, job_id, step.number) for job_id in step.component_jobs]
    return [each for each in found if each is not None] or [step]


def _with_input(event: StepRequested, tasks: int) -> StepRequested:
    """Return the event with input for all tasks if its input rank is not the rank of a task.

    As in Slurm, the number is then the name of a file that all tasks read.
    """
    if not tasks <= event.options.input_rank < wire.EVERY_TASK:
        return event
    options = msgspec.structs.replace(event.options, input_rank=wire.EVERY_TASK)
    return msgspec.structs.replace(event, options=options)


def end(txn: Transaction, event: StepEndRequested) -> Outcome:
    """End a step, or send it a signal.

    Raises UserError if the step does not run or the caller may not end it.
    """
    job, step = txn.state.jobs.get(event.job_id), find_step(txn.state, event.job_id, event.number)
    if job is not None and not may_control(event.principal, job):
        raise UserError(
            f"job {job.label()} belongs to {owner_text(event.principal, job)}, not to {event.principal.user}",
            code="denied",
        )
    if job is None or step is None or step.is_finished:
        message = f"step {event.job_id}.{event.number} is not running"
        raise UserError(message, f"see `warpdeck show {event.job_id}`", code=_no_step_code(job, step))
    running = [each for each in whole_step(txn.state, step) if not each.is_finished]
    if event.signal:
        kills = [kill for each in running for kill in _kills(each, signal=event.signal)]
        return Outcome(effects=tuple(kills), replan=False)
    return Outcome(effects=tuple(_end_step(txn, step, event.cause)), replan=False)


def _no_step_code(job: Job | None, step: Step | None) -> str:
    """Return the error code for a step that does not run."""
    if job is None or job.is_finished:
        return "not_found"
    if step is not None:
        return "already_done"
    return "pending" if job.state is JobState.PENDING else "no_step"


def report(txn: Transaction, event: StepReported) -> Outcome:
    """Apply an agent's report on a step."""
    return Outcome(effects=tuple(apply_report(txn, event.name, event.report)), replan=False)


def apply_report(txn: Transaction, name: NodeName, step_report: wire.StepReport) -> list[Effect]:
    """Apply a report to the step.

    A repeated report changes nothing. A stale launch on the node is ended or forgotten.
    """
    step = find_step(txn.state, JobId(step_report.job_id), step_report.step)
    part = None if step is None else next((each for each in step.parts if each.node == name), None)
    if step is None and txn.state.recovery.covers(step_report.job_id, step_report.restarts):
        return []  # It belongs to a launch that is older than the database, and ends with it.
    if step is None or part is None or step.restarts != step_report.restarts or step.is_finished:
        return _handle_stale_report(step, name, step_report)
    if part.phase == "exited":
        return []
    known = {end.rank: end for end in part.ends}
    share = next(each for each in step.shares if each.node == name)
    here = {rank for rank in share.ranks if rank not in known} if step_report.ends else set()
    new_ends = {
        each.rank: each for each in step_report.ends if each.rank in here
    }  # Reports about ranks of other nodes are ignored.
    fresh = [
        TaskEnd(rank=each.rank, code=each.code, signal=each.signal, oom=each.oom)
        for each in new_ends.values()
    ]
    over = step_report.phase == "exited"
    if over:
        reported = known.keys() | {each.rank for each in fresh}
        fresh += [TaskEnd(rank=rank, code=1) for rank in share.ranks if rank not in reported]
    changed = replace(
        part,
        phase=step_report.phase,
        ends=(*part.ends, *fresh),
        cpu_seconds=step_report.cpu_seconds,
        system_s=step_report.system_s,
        peak_mem_bytes=step_report.peak_mem_bytes,
        spreads=to_spreads(step_report.spreads),
        gpu=to_usage(step_report.gpu),
        message=(f"{name}: {step_report.message}" if step_report.check else step_report.message)
        or part.message,
        abort=part.abort or _abort(step_report),
    )
    if changed == part:
        return []
    step = replace(step, parts=tuple(changed if each.node == name else each for each in step.parts))
    if step.encoded_request and all(each.phase != "launching" for each in step.parts):
        step = replace(step, encoded_request=b"")
    failed = "launch_failed" if over and step_report.message else ""
    if over and drain_until_passed(txn, name, step_report.check, reason=step_report.message):
        failed = "node_fail"
        if all(part.phase == "exited" for part in step.parts):
            step = replace(step, ending_cause=step.ending_cause or failed)
    txn.put_step(step)
    if step_report.curve is not None:
        txn.put_curve(
            JobCurve(job_id=step.job_id, node=name, curve=to_curve(step_report.curve), step=step.number)
        )
    return _follow_up(txn, step, fresh, failed=failed)


def _handle_stale_report(step: Step | None, name: NodeName, step_report: wire.StepReport) -> list[Effect]:
    """Handle a report about a step that no longer runs on the node.

    An ended step of the current start still waits for its output streams. Any other step is ended and
    forgotten on the node.
    """
    job_id, start = JobId(step_report.job_id), step_report.restarts
    if step_report.phase != "exited":
        return [KillStep(node=name, job_id=job_id, restarts=start, number=step_report.step, at_once=True)]
    if step is not None and step.restarts == start:
        return []
    return [ForgetStep(node=name, job_id=job_id, restarts=start, number=step_report.step)]


def _follow_up(txn: Transaction, step: Step, fresh: list[TaskEnd], *, failed: str) -> list[Effect]:
    """Return the effects of these task ends.

    The ends may end the step, or its other tasks. `failed` is the cause of the end if the node has reported a
    failure.
    """
    if all(part.phase == "exited" for part in step.parts):
        ended = _finish(txn, step, ended_at=txn.now)
        job = txn.state.jobs[step.job_id]
        is_all = job.request.holder == "srun" and step.number == 0
        if is_all:
            return release(txn, job, ended)
        if len(step.component_jobs) < 2:
            return []
    if step.ending_cause:
        return []
    if any(part.abort is not None for part in step.parts):
        return _end_step(txn, step, "aborted")
    if failed:
        return _end_step(txn, step, failed)
    if step.kill_on_bad_exit and any(each.shell_code() for each in fresh):
        return _end_step(txn, step, "bad_exit")
    return []


def _abort(step_report: wire.StepReport) -> TaskEnd | None:
    end = step_report.abort
    return None if end is None else TaskEnd(rank=end.rank, code=end.code, signal=end.signal)


def _end_step(txn: Transaction, step: Step, cause: str) -> list[Effect]:
    effects: list[Effect] = []
    for each in whole_step(txn.state, step):
        if not each.is_finished:
            txn.put_step(replace(each, ending_cause=each.ending_cause or cause))
            effects += _kills(each)
    return effects


def _kills(step: Step, *, signal: int = 0) -> list[Effect]:
    return [
        KillStep(
            node=part.node, job_id=step.job_id, restarts=step.restarts, number=step.number, signal=signal
        )
        for part in step.parts
        if part.phase != "exited"
    ]


def _finish(txn: Transaction, step: Step, *, ended_at: float) -> ExitStatus:
    aborted = next((part.abort for part in step.parts if part.abort is not None), None)
    worst = max(step.ends().values(), key=TaskEnd.shell_code, default=TaskEnd(rank=0, code=1))
    if aborted is not None and step.ending_cause == "aborted":
        worst = aborted if aborted.shell_code() else TaskEnd(rank=aborted.rank, code=1)
    message = next((part.message for part in step.parts if part.message), "")
    state = _STATE_OF_CAUSE.get(step.ending_cause)
    if any(end.oom for end in step.ends().values()):
        state = JobState.OUT_OF_MEMORY
    if state is None:
        state = JobState.FAILED if worst.shell_code() or message else JobState.COMPLETED
    code = worst.code or (1 if message and not worst.shell_code() else 0)
    status = ExitStatus(code=code, signal=worst.signal, cause=step.ending_cause, message=message)
    txn.put_step(replace(step, state=state, exit=status, end_at_unix=max(ended_at, step.start_at_unix)))
    return status


def end_all(txn: Transaction, job: Job, *, ended_at: float) -> None:
    """End all steps of a job that has ended."""
    for step in list(txn.state.steps.get(job.id, {}).values()):
        if not step.is_finished:
            parts = tuple(_closed(part, share) for part, share in zip(step.parts, step.shares, strict=True))
            cause = step.ending_cause or "cancelled"
            _finish(txn, replace(step, parts=parts, ending_cause=cause), ended_at=ended_at)


def _closed(part: StepPart, share: StepShare) -> StepPart:
    reported = {end.rank for end in part.ends}
    missing = tuple(TaskEnd(rank=rank, signal=9) for rank in share.ranks if rank not in reported)
    return replace(part, phase="exited", ends=(*part.ends, *missing))


def reconcile_steps(txn: Transaction, name: NodeName, reported: list[wire.StepReport]) -> list[Effect]:
    """Reconcile the steps in a Welcome message.

    A step of which the node has no record has not started, or has ended.
    """
    effects: list[Effect] = []
    for step_report in reported:
        effects += apply_report(txn, name, step_report)
    known = {(step_report.job_id, step_report.restarts, step_report.step) for step_report in reported}
    for job in txn.state.jobs_on(name):
        for step in list(txn.state.steps.get(job.id, {}).values()):
            if not step.is_finished and (job.id, job.restarts, step.number) not in known:
                effects += _handle_unreported(txn, step, name)
    return effects


def _handle_unreported(txn: Transaction, step: Step, name: NodeName) -> list[Effect]:
    part = next((each for each in step.parts if each.node == name), None)
    if part is None or part.phase == "exited":
        return []
    if part.phase == "launching" and step.encoded_request and not step.ending_cause:
        requested = _ASKED.decode(step.encoded_request)
        return [LaunchStep(node=name, job_id=step.job_id, number=step.number, request=requested)]
    gone = wire.StepReport(
        job_id=step.job_id,
        restarts=step.restarts,
        step=step.number,
        phase="exited",
        message=f"node {name} has no record of the step",
    )
    return apply_report(txn, name, gone)


def find_step(state: State, job_id: JobId, number: int) -> Step | None:
    """Return the running or recently ended step of a job in memory; None if there is none."""
    return state.steps.get(job_id, {}).get(number)
