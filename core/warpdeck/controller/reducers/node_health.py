"""Apply health reports of nodes to nodes, GPUs and jobs.

GPUs and nodes are drained with a reason, jobs are notified, and recovered nodes are resumed. A failed check
drains the GPU or the node to which it applies. Some checks can recover without help (disk, mount, clock,
temperature, the site's program). If warpdeck made the drain, it ends when the check recovers; a drain by an
administrator ends only when an administrator resumes the node. A fault (Xid, ECC) is an event and drains its
GPU once, permanently. If an administrator resumes a node that still fails, the next check drains it again.
Xids that a faulty program can cause drain nothing, because a user's bug could otherwise drain the whole
cluster; only the job is notified.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from warpdeck.config import Config, HealthRules
from warpdeck.controller.events.effects import Effect, Outcome, ShowNotice
from warpdeck.controller.events.events import HealthReported
from warpdeck.controller.state.node_conditions import differs_in_words
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import CLEARING, Check, CheckVerdict, GpuDrain, GpuUuid, Job, JobState, Node, NodeHealth
from warpdeck_agent.wire import messages as wire

from .job_commands import end_job

log = logging.getLogger("warpdeck.health")


class HealthProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A new problem reported to the jobs on a GPU, or to all jobs on the node if `uuid` is ""."""

    check: str
    message: str
    uuid: str = ""
    gpu: int = -1
    drains: bool = True

    def sentence(self, node: Node) -> str:
        """Return the sentence for the job's history and its output."""
        where = f"GPU {self.gpu} of {node.name}" if self.uuid else f"node {node.name}"
        return f"{where}: {self.message}"


def health_request(config: Config, *, now: float) -> wire.AskHealth:
    """Return the health request for agents, with the site's settings for health checks."""
    table = config.health
    return wire.AskHealth(
        at_unix=now,
        interval_s=table.interval_s,
        program=table.program,
        program_timeout_s=table.timeout_s,
        min_free_bytes=table.min_free,
    )


def apply_health(txn: Transaction, event: HealthReported) -> Outcome:
    """Apply the health report of an agent."""
    state, node = txn.state, txn.state.nodes.get(event.name)
    if node is None:
        return Outcome(replan=False)
    rules = state.site.health
    before = state.node_status.health.get(node.name, NodeHealth(at_unix=0.0))
    off_s = _clock_off_s(event, before, rules.max_clock_skew_s)
    checks = (
        *(_check(reported) for reported in event.health.checks),
        *_clock(event, before, off_s, most_s=rules.max_clock_skew_s),
        *_gpus(node),
    )
    state.node_status.health[node.name] = NodeHealth(
        at_unix=event.received_unix,
        checks=checks,
        last_xids={fault.uuid: fault.xid for fault in event.health.faults if fault.xid},
        clock_off_s=off_s,
    )
    evaluated, problems = evaluate(node, checks, event.health.faults, rules=rules, now=txn.now)
    if evaluated == node:
        return Outcome(replan=False)
    txn.put_node(evaluated)
    effects: list[Effect] = []
    for problem in problems:
        log.warning("%s", problem.sentence(node))
        effects += _notify_jobs(txn, evaluated, problem, rules)
    return Outcome(effects=tuple(effects))


def evaluate(
    node: Node, checks: tuple[Check, ...], faults: Iterable[wire.Fault], *, rules: HealthRules, now: float
) -> tuple[Node, list[HealthProblem]]:
    """Return the node in its new state, and the new problems. All decisions about health are made here."""
    failing = [each for each in checks if each.verdict is CheckVerdict.FAIL and each.name not in rules.ignore]
    new_faults = [fault for fault in faults if fault.number > node.faults_until]
    reported = [
        *(_fault(fault, rules) for fault in new_faults if fault.at_unix >= node.added_at_unix),
        *(_failure(check) for check in failing if check.uuid),
    ]
    node_gpus = {*node.known_gpus, *(gpu.uuid for gpu in node.gpus)}
    problems = [problem for problem in reported if problem.uuid in node_gpus]
    drains, begun = _drain_gpus(node, checks, problems, now=now)
    node = replace(
        node,
        gpu_drains=drains,
        faults_until=max([node.faults_until, *(fault.number for fault in new_faults)]),
    )
    evaluated, of_node = _drain_node(node, checks, [check for check in failing if not check.uuid], now=now)
    return evaluated, [*begun, *of_node]


def _fault(fault: wire.Fault, rules: HealthRules) -> HealthProblem:
    drains = fault.check not in rules.ignore and fault.xid not in rules.ignore_xids
    return HealthProblem(
        check=fault.check, message=fault.message, uuid=fault.uuid, gpu=fault.gpu, drains=drains
    )


def _failure(check: Check) -> HealthProblem:
    return HealthProblem(check=check.name, message=check.message, uuid=check.uuid, gpu=check.gpu)


def _drain_gpus(
    node: Node, checks: tuple[Check, ...], problems: list[HealthProblem], *, now: float
) -> tuple[tuple[GpuDrain, ...], list[HealthProblem]]:
    """Return the GPU drains from now on, and the new problems.

    A permanent cause replaces a cause that can recover.
    """
    checked = any(check.name == "gpu_lost" for check in checks)
    failing = {(problem.uuid, problem.check) for problem in problems}
    drains = {
        drain.uuid: drain
        for drain in node.gpu_drains
        if not (checked and drain.check in CLEARING and (drain.uuid, drain.check) not in failing)
    }
    new_problems = []
    for problem in problems:
        uuid = GpuUuid(problem.uuid)
        known = drains.get(uuid)
        if not problem.drains:
            new_problems.append(problem)
        elif known is None or (known.check in CLEARING and problem.check not in CLEARING):
            drains[uuid] = GpuDrain(uuid=uuid, reason=problem.message, check=problem.check, at_unix=now)
            new_problems.append(problem)
    return tuple(drains.values()), new_problems


def _drain_node(
    node: Node, checks: tuple[Check, ...], failing: list[Check], *, now: float
) -> tuple[Node, list[HealthProblem]]:
    """Return the node with its drain state, and the new problems.

    The node is drained as long as a check fails. A drain by an administrator is not changed.
    """
    if node.drained and not node.drain_checks:
        return node, []
    names = {check.name for check in failing}
    if not any(check.name in ("disk", "mount") for check in checks):
        names.update(node.drain_checks)  # An agent that has just started has not run these checks yet.
    found = tuple(sorted(names))
    reason = "; ".join(check.message for check in failing) or node.reason
    if found == node.drain_checks:
        return (replace(node, reason=reason) if differs_in_words(reason, node.reason) else node), []
    if not found:
        return replace(
            node, drained=False, drain_checks=(), reason="", reason_at_unix=now, reason_user=""
        ), []
    new_problems = [_failure(check) for check in failing if check.name not in node.drain_checks]
    return replace(
        node, drained=True, drain_checks=found, reason=reason, reason_at_unix=now, reason_user=""
    ), new_problems


def _notify_jobs(txn: Transaction, node: Node, problem: HealthProblem, rules: HealthRules) -> list[Effect]:
    """Notify every affected job in its history and its output, and requeue it if the site's rules require
    that.
    """
    effects: list[Effect] = []
    sentence = problem.sentence(node)
    for job in txn.state.jobs_on(node.name):
        if not _concerns(job, node, problem):
            continue
        job = txn.put_job(replace(job, notice=sentence))
        txn.log(job.id, sentence)
        effects.append(ShowNotice(node=node.name, job_id=job.id, restarts=job.restarts, text=sentence))
        if problem.drains and problem.check in rules.requeue_on:
            effects += _requeue(txn, job)
    return effects


def _concerns(job: Job, node: Node, problem: HealthProblem) -> bool:
    shares = job.allocation.shares if job.allocation is not None else ()
    return any(
        share.node == node.name and (not problem.uuid or problem.uuid in share.gpu_uuids) for share in shares
    )


def _requeue(txn: Transaction, job: Job) -> list[Effect]:
    """Requeue the job if it allows this. A job that is already ending is left alone."""
    may_move = job.state in (JobState.RUNNING, JobState.CONFIGURING, JobState.SUSPENDED)
    if not may_move or not job.request.requeue or job.request.pty is not None:
        return []
    txn.log(job.id, "requeued because of it")
    return end_job(txn, replace(job, requeue_on_exit=True), "requeued")


def _check(reported: wire.Check) -> Check:
    """Convert a check of an agent.

    An unknown state from an agent of another version becomes a warning and drains nothing.
    """
    verdict = CheckVerdict(reported.state) if reported.state in set(CheckVerdict) else CheckVerdict.WARN
    return Check(
        name=reported.name, verdict=verdict, message=reported.message, gpu=reported.gpu, uuid=reported.uuid
    )


def _clock_off_s(event: HealthReported, before: NodeHealth, most_s: float) -> float:
    """Return the clock error of the node in seconds; 0.0 if it is at most `most_s`.

    The node read its clock after the controller had sent the request and before the answer arrived.
    Subtracting each of these two times from the node's time therefore gives an upper and a lower limit of the
    error, however slow the link is.
    """
    health = event.health
    if not health.asked_at_unix:
        return before.clock_off_s
    at_most, at_least = health.at_unix - health.asked_at_unix, health.at_unix - event.received_unix
    off_s = at_least if at_least > 0 else min(0.0, at_most)
    return off_s if abs(off_s) > most_s else 0.0


def _clock(event: HealthReported, before: NodeHealth, off_s: float, *, most_s: float) -> tuple[Check, ...]:
    if not event.health.asked_at_unix:
        return tuple(check for check in before.checks if check.name == "clock")
    if not off_s:
        return (
            Check(name="clock", verdict=CheckVerdict.OK, message=f"within {most_s:g} s of the controller's"),
        )
    side = "ahead of" if off_s > 0 else "behind"
    message = f"the clock is {abs(off_s):.0f} s {side} the controller's"
    return (Check(name="clock", verdict=CheckVerdict.FAIL, message=message),)


def _gpus(node: Node) -> tuple[Check, ...]:
    """Return a failed check if the node has fewer GPUs than at an earlier start of its agent.

    A GPU that was replaced by another one does not count as missing.
    """
    there = {gpu.uuid for gpu in node.gpus}
    if len(there) >= len(node.known_gpus):
        return ()
    missing = ", ".join(uuid for uuid in node.known_gpus if uuid not in there)
    message = f"{len(there)} of {len(node.known_gpus)} GPUs found: {missing} is missing"
    return (Check(name="gpus", verdict=CheckVerdict.FAIL, message=message),)
