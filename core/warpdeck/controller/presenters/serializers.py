"""The state as rows for clients. All functions are pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from warpdeck.base.cluster import ALL_NODES, NORMAL_QOS
from warpdeck.controller.launch.launching import output_paths
from warpdeck.controller.state.measurements import summed
from warpdeck.controller.state.state import State, amend
from warpdeck.controller.state.view import (
    blocked_gpus,
    gpu_holders,
    gpu_users,
    runs_jobs,
    shares_on,
    wants_users_apart,
)
from warpdeck.model import (
    COMPACT,
    GpuLinks,
    GpuReading,
    GpuUsage,
    Job,
    JobId,
    JobState,
    Link,
    Node,
    NodeName,
    PendingReason,
    ShareStatus,
    Verdict,
    count_tasks,
)
from warpdeck.model.step import StepPart
from warpdeck.notation.request.sweep import swept, swept_by_all
from warpdeck.notation.values.dependencies import format_dependencies
from warpdeck.notation.values.hostlist import collapse
from warpdeck.policy import NO_BACKLOG, TOLD, Backlog
from warpdeck.policy.placement.pending_reason import held
from warpdeck.ports.ports import JournalEntry
from warpdeck.protocol.job_rows import GpuUse, JobDetail, JobEvent, JobRow, UsageRow, WhyRow
from warpdeck.protocol.node_rows import (
    CheckRow,
    FacilityRow,
    GpuRow,
    NodeHealthRow,
    NodeRow,
    ProcessRow,
    SharerRow,
)

UNTOLD = "expected start unknown: it waits for jobs without a time limit"
MOST_SWEPT = 200
"""Maximum number of characters of a sweep task's values in a row. Longer texts are not read in a list."""
NEXT = "Resources"
"""Slurm's reason for jobs that wait only for resources."""
NEVER_STARTED = {"dependency": "DependencyNeverSatisfied", "deadline": "DeadLine"}
"""Causes with which a pending job ends by itself -> Slurm's reason, which the job keeps."""


def job_row(state: State, job: Job) -> JobRow:
    """Return the row of a job in the queue."""
    job = as_shown(job)
    request, has = job.request, holdings(job)
    util, mem = _gpu_use(state, job)
    why = state.planned.pending_reasons.get(job.id)
    ended = job.exit
    return JobRow(
        id=job.id,
        label=job.label(),
        array_job_id=job.family_id,
        array_task_id=job.array_task_id,
        tasks_pending=count_tasks(job.pending_tasks),
        name=request.name,
        user=job.user,
        account=request.account,
        partition=partition_of(job),
        qos=request.qos or NORMAL_QOS,
        state=job.state.value,
        state_short=COMPACT[job.state],
        why=why_row(job, why, state.planned.backlog),
        priority=state.planned.priorities.get(job.id) if job.state is JobState.PENDING else None,
        nodes=has.nodes,
        node_list=has.node_list,
        cpus=has.cpus,
        gpus=has.gpus,
        gpu_type=request.resources.gpus.type,
        mem_bytes=has.mem_bytes,
        time_limit_s=job.time_limit_s if job.start_at_unix else request.time_limit_s,
        submit=job.submit_at_unix,
        start=job.start_at_unix,
        end=job.end_at_unix,
        exit_code=str(ended) if ended else "",
        exit_cause=ended.cause if ended else "",
        used=usage_row(job) if job.is_finished and job.shares else None,
        restarts=job.restarts,
        held=job.held,
        interactive=request.pty is not None,
        idle_since=idle_since(state, job),
        gpu_util_pct=util,
        gpu_mem_bytes=mem,
        tree=request.snapshot.tree if request.snapshot else "",
        sweep=sweep_of_job(job),
        comment=request.comment,
    )


def sweep_of_job(job: Job) -> str:
    """Return the parameter values of a sweep task.

    While the tasks are pending in one record, return all values of the sweep.
    """
    script = job.request.script
    if job.array_task_id is not None:
        return swept(script, job.array_task_id)[:MOST_SWEPT]
    return swept_by_all(script)[:MOST_SWEPT] if job.pending_tasks else ""


class Holdings(NamedTuple):
    """The resources that a job holds, or requests if it holds none yet."""

    nodes: int
    node_list: str
    cpus: int
    gpus: int
    mem_bytes: int


def holdings(job: Job) -> Holdings:
    """Return the resources of all nodes of the job together."""
    allocation, asked = job.allocation, job.request.resources
    shares = allocation.shares if allocation else ()
    return Holdings(
        nodes=len(shares) or asked.nodes_min,
        node_list=collapse(allocation.node_names()) if allocation else "",
        cpus=sum(share.cpus for share in shares) or asked.task_count() * asked.cpus_per_task,
        gpus=allocation.gpu_count() if allocation else job.request.resources.gpu_count(),
        mem_bytes=sum(share.mem_bytes for share in shares) or asked.mem_per_node_bytes or 0,
    )


def as_shown(job: Job) -> Job:
    """Return the job as clients see it.

    A task that was prefetched to its node and may not have begun there is shown as pending, like the rest of
    its array.
    """
    if not job.is_handed:
        return job
    return amend(job, state=JobState.PENDING, allocation=None, shares=(), partition="", time_limit_s=None)


def usage_row(job: Job) -> UsageRow:
    """Return the resource use of those shares of the job that have ended."""
    return use_of(job.shares)


def use_of(parts: Sequence[ShareStatus] | Sequence[StepPart]) -> UsageRow:
    """Return the summed resource use of the parts of a job or step on its nodes."""
    return shown_usage(
        summed(part.gpu for part in parts),
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        system_s=sum(part.system_s for part in parts),
        peak_mem_bytes=max((part.peak_mem_bytes for part in parts), default=0),
    )


def shown_usage(
    gpu: GpuUsage | None, *, cpu_seconds: float, peak_mem_bytes: int, system_s: float = 0.0
) -> UsageRow:
    """Return resource use in the form that clients get."""
    return UsageRow(
        cpu_seconds=cpu_seconds,
        system_s=system_s,
        peak_mem_bytes=peak_mem_bytes,
        gpu_util_pct=gpu.util_pct if gpu else None,
        gpu_idle_pct=gpu.idle_pct if gpu else None,
        gpu_mem_peak_bytes=gpu.mem_peak_bytes if gpu else None,
        energy_j=gpu.energy_j if gpu else None,
    )


def never_started(job: Job) -> tuple[str, str]:
    """Return Slurm's reason and a sentence for a job that ended without a start.

    Both are "" for other jobs.
    """
    code = "" if job.exit is None else NEVER_STARTED.get(job.ending_cause, "")
    return code, f"ended without a start: {job.exit.message}" if code and job.exit else ""


def why_row(job: Job, why: PendingReason | None, likely: Backlog = NO_BACKLOG) -> WhyRow | None:
    """Return why a job is pending, or why it ended without a start. Return None for any other job.

    `likely` holds the estimated starts of jobs far back in the queue.
    """
    if job.state is not JobState.PENDING:
        code, sentence = never_started(job)
        return WhyRow(code=code, sentence=sentence) if code else None
    if job.behind is not None:
        return WhyRow(code=NEXT, sentence="starts after a running task of its array")
    if job.held:
        why = held(job)
        return WhyRow(code=why.code, sentence=why.sentence)
    if why is None:
        return WhyRow(code="None", sentence="not yet considered by the scheduler")
    if why.expected_start_unix is None and why.code in TOLD and len(likely):
        at_unix = likely.start_of(job.id)
        sentence = why.sentence if at_unix is not None else f"{why.sentence}; {UNTOLD}"
        return WhyRow(code=why.code, sentence=sentence, expected_start=at_unix, rough=at_unix is not None)
    return WhyRow(code=why.code, sentence=why.sentence, expected_start=why.expected_start_unix)


def partition_of(job: Job) -> str:
    """Return the partition in which the job started, or the partitions in which it may start."""
    return job.partition or job.request.partition or ALL_NODES


def job_detail(state: State, job: Job, journal: list[JournalEntry]) -> JobDetail:
    """Return all details of a job except its environment."""
    request, ran_s = job.request, job.ran_s()
    stdout, stderr = output_paths(job)
    first = job.shares[0] if job.shares else None
    return JobDetail(
        row=job_row(state, job),
        script=request.script,
        argv=list(request.argv),
        submit_line=request.submit_line,
        submit_dir=request.submit_dir,
        work_dir=first.work_dir if first else "",
        stdout=stdout or (first.stdout_path if first else ""),
        stderr=stderr,
        gpus=_job_gpus(state, job),
        dependency=format_dependencies(
            msgspec.to_builtins(request.dependencies) if request.dependencies else None
        ),
        snapshot=msgspec.to_builtins(request.snapshot) | {"uid": job.uid} if request.snapshot else None,
        recording=request.code_due_unix is not None and job.state is JobState.PENDING,
        message=job.exit.message if job.exit else "",
        notice=job.notice,
        predicted_s=job.predicted_s,
        prediction_error_s=None if job.predicted_s is None or ran_s is None else job.predicted_s - ran_s,
        events=[JobEvent(at=entry.at_unix, text=entry.text) for entry in journal],
    )


def node_row(state: State, node: Node) -> NodeRow:
    """Return the row of a node, with the last readings of its GPUs."""
    jobs = state.jobs_on(node.name)
    reading = state.node_status.readings.get(node.name)
    holders = gpu_holders(state, node.name)
    shares = [share for _, share in shares_on(state, node.name)]
    blocked = blocked_gpus(node, reading, gpu_users(state, node.name))
    gpus = [_gpu_row(state, node, index, holders, blocked) for index in range(len(node.gpus))]
    cpus_used = sum(share.cpus for share in shares)
    facts = state.site.nodes.get(node.name)
    topology = node.topology.told(node.cpus)
    return NodeRow(
        name=node.name,
        target=node.target or "local",
        state=node_state(state, node, cpus_used),
        reason=node.reason if node.drained else state.node_status.link_reasons.get(node.name, ""),
        hostname=node.hostname,
        cpus=node.cpus,
        cpus_used=cpus_used,
        cpu_pct=reading.cpu_pct if reading else None,
        sockets=topology.sockets,
        cores=topology.cores,
        threads=topology.threads,
        mem_bytes=node.mem_bytes,
        tmp_disk_bytes=node.tmp_disk_bytes,
        mem_alloc_bytes=sum(share.mem_bytes for share in shares),
        mem_used_bytes=reading.mem_used_bytes if reading else None,
        gpus=gpus,
        driver=node.driver,
        kernel=node.kernel,
        arch=node.arch,
        booted=node.booted_at_unix or None,
        agent_start=node.agent_at_unix or None,
        containment=node.containment,
        facilities=[
            FacilityRow(name=each.name, strength=each.strength, how=each.how) for each in node.facilities
        ],
        containers=list(node.containers),
        weight=facts.weight if facts else 1,
        comment=facts.comment if facts else "",
        extra=facts.extra if facts else "",
        address=node.address,
        reason_at=node.reason_at_unix or None,
        features=sorted(facts.features) if facts else [],
        gpu_error=node.gpu_error,
        health=[row for row in check_rows(state, node) if row.verdict != Verdict.OK],
        jobs=[job.label() for job in jobs],
        owner=next((job.user for job in jobs if wants_users_apart(state, job, job.partition)), ""),
        at=reading.at_unix if reading else None,
    )


def node_health_row(state: State, node: Node, *, error: str = "") -> NodeHealthRow:
    """Return the health checks of a node."""
    known = state.node_status.health.get(node.name)
    cpus_used = sum(share.cpus for _, share in shares_on(state, node.name))
    return NodeHealthRow(
        name=node.name,
        state=node_state(state, node, cpus_used),
        reason=node.reason if node.drained else state.node_status.link_reasons.get(node.name, ""),
        checks=check_rows(state, node),
        error=error,
        at=known.at_unix if known else None,
    )


def check_rows(state: State, node: Node) -> list[CheckRow]:
    """Return the last results of the checks, followed by the drained GPUs that no check reports any more.

    An admin or an earlier check result drained those GPUs.
    """
    known = state.node_status.health.get(node.name)
    rows = [
        CheckRow(
            check=check.name,
            verdict=check.verdict.value,
            message=check.message,
            gpu=None if check.gpu < 0 else check.gpu,
        )
        for check in (known.checks if known else ())
    ]
    told = {(row.check, row.gpu) for row in rows if row.verdict == Verdict.FAIL}
    indices = {gpu.uuid: gpu.index for gpu in node.gpus}
    for drain in node.gpu_drains:
        name, index = drain.check or "admin", indices.get(drain.uuid)
        if (name, index) not in told:
            rows.append(CheckRow(check=name, verdict=Verdict.FAIL, message=drain.reason, gpu=index))
    return rows


def node_state(state: State, node: Node, cpus_used: int) -> str:
    """Return the node's state as sinfo names it."""
    link = state.node_status.links.get(node.name, Link.CONNECTING)
    return state_in_words(node, link, cpus_used=cpus_used, busy=runs_jobs(state, node.name))


def state_in_words(node: Node, link: Link, *, cpus_used: int, busy: bool) -> str:
    """Return the node's state as sinfo names it.

    For a healthy node it depends on the CPUs in use, as in Slurm.
    """
    if node.drained:
        return "draining" if busy else "drained"
    if link is Link.LOST:
        return "down"
    if link is Link.CONNECTING:
        return "connecting"
    if not busy:
        return "idle"
    return "allocated" if cpus_used >= node.cpus else "mixed"


def _gpu_row(
    state: State,
    node: Node,
    position: int,
    holders: dict[int, JobId],
    blocked: dict[int, str],
) -> GpuRow:
    gpu = node.gpus[position]
    reading = _reading(state, node.name, gpu.index)
    holder = state.jobs.get(holders.get(gpu.index, JobId(0)))
    return GpuRow(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        type=gpu.type,
        mem_bytes=gpu.mem_bytes,
        util_pct=reading.util_pct if reading else None,
        mem_used_bytes=reading.mem_used_bytes if reading else None,
        power_w=reading.power_w if reading else None,
        temp_c=reading.temp_c if reading else None,
        job=holder.label() if holder else "",
        job_user=holder.user if holder else "",
        sharers=_sharers(state, node.name, gpu.index),
        isolation=gpu.isolation,
        blocked=blocked.get(gpu.index, ""),
        error=reading.error if reading else "",
        island=gpu.island,
        numa_node=gpu.numa_node,
        links=reading.links if reading else GpuLinks(),
        processes=[
            ProcessRow(
                pid=process.pid,
                user=process.user,
                command=process.command,
                mem_bytes=process.mem_bytes,
                job=_label(state, process.job_id),
            )
            for process in (reading.processes if reading else ())
        ],
    )


def _sharers(state: State, name: NodeName, index: int) -> list[SharerRow]:
    return [
        SharerRow(job=job.label(), user=job.user, share_pct=share.gpu_share_pct)
        for job, share in ((state.jobs[job_id], share) for job_id, share in shares_on(state, name))
        if share.gpu_share_pct < 100 and index in share.gpus
    ]


def _label(state: State, job_id: JobId) -> str:
    if not job_id:
        return ""
    job = state.jobs.get(job_id)
    return job.label() if job else str(job_id)


def idle_since(state: State, job: Job) -> float | None:
    """Return the time since which an interactive job is unused, as far as its first node knows."""
    if job.request.pty is None or not job.holds_resources or not job.shares:
        return None
    reading = state.node_status.readings.get(job.shares[0].node)
    return next((since for job_id, since in reading.idle if job_id == job.id), None) if reading else None


def _reading(state: State, name: NodeName, index: int) -> GpuReading | None:
    reading = state.node_status.readings.get(name)
    return next((gpu for gpu in reading.gpus if gpu.index == index), None) if reading else None


def _is_read(state: State, job: Job, name: NodeName) -> bool:
    """Return whether the node was measured after the job started.

    Older readings say nothing about the job.
    """
    reading = state.node_status.readings.get(name)
    return job.holds_resources and reading is not None and reading.at_unix >= (job.start_at_unix or 0.0)


def _job_gpus(state: State, job: Job) -> list[GpuUse]:
    found = []
    for share in job.allocation.shares if job.allocation else ():
        node = state.nodes.get(share.node)
        known = {gpu.index: gpu for gpu in node.gpus} if node else {}
        for index, uuid in zip(share.gpus, share.gpu_uuids, strict=True):
            reading = _reading(state, share.node, index) if _is_read(state, job, share.node) else None
            found.append(
                GpuUse(
                    node=share.node,
                    index=index,
                    uuid=uuid,
                    util_pct=reading.util_pct if reading else None,
                    mem_used_bytes=reading.mem_used_bytes if reading else None,
                    mem_bytes=known[index].mem_bytes if index in known else 0,
                    share_pct=share.gpu_share_pct,
                    isolation=known[index].isolation if index in known else "",
                )
            )
    return found


def _gpu_use(state: State, job: Job) -> tuple[int | None, int | None]:
    """Return the mean utilization and the total memory of the job's GPUs.

    A value is None if nothing is known.
    """
    if not job.holds_resources or job.allocation is None or not job.allocation.gpu_count():
        return None, None
    uses = _job_gpus(state, job)
    utils = [use.util_pct for use in uses if use.util_pct is not None]
    mems = [use.mem_used_bytes for use in uses if use.mem_used_bytes is not None]
    return (round(sum(utils) / len(utils)) if utils else None), (sum(mems) if mems else None)
