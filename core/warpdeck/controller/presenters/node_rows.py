"""Nodes, their GPUs and their health checks as rows for clients. All functions are pure."""

from __future__ import annotations

from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import (
    blocked_gpus,
    gpu_holders,
    gpu_users,
    shares_on,
)
from warpdeck.model import CheckVerdict, Gpu, GpuLinks, GpuReading, JobId, Node, NodeName
from warpdeck.protocol.node_rows import (
    CheckRow,
    FacilityRow,
    GpuRow,
    NodeHealthRow,
    NodeRow,
    ProcessRow,
    SharerRow,
)

from .gpu_readings import by_index
from .node_now import common_fields, node_now


def node_row(state: State, node: Node) -> NodeRow:
    """Return the row of a node, with the last readings of its GPUs."""
    now, jobs = node_now(state, node), state.jobs_on(node.name)
    readings, holders = by_index(now.reading), gpu_holders(state, node.name)
    blocked = blocked_gpus(node, now.reading, gpu_users(state, node.name))
    return NodeRow(
        **common_fields(state, now),
        target=node.target or "local",
        gpus=[_gpu_row(state, node, gpu, readings.get(gpu.index), holders, blocked) for gpu in node.gpus],
        driver=node.driver,
        containment=node.containment,
        facilities=[
            FacilityRow(name=each.name, strength=each.strength, how=each.how) for each in node.facilities
        ],
        containers=list(node.containers),
        address=node.address,
        gpu_error=node.gpu_error,
        health=[row for row in check_rows(state, node) if row.verdict != CheckVerdict.OK],
        jobs=[job.label() for job in jobs],
    )


def node_health_row(state: State, node: Node, *, error: str = "") -> NodeHealthRow:
    """Return the health checks of a node."""
    now = node_now(state, node)
    return NodeHealthRow(
        name=node.name,
        state=now.state,
        reason=now.reason,
        checks=check_rows(state, node),
        error=error,
        at=now.health.at_unix if now.health else None,
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
    failed = {(row.check, row.gpu) for row in rows if row.verdict == CheckVerdict.FAIL}
    indices = {gpu.uuid: gpu.index for gpu in node.gpus}
    for drain in node.gpu_drains:
        name, index = drain.check or "admin", indices.get(drain.uuid)
        if (name, index) not in failed:
            rows.append(CheckRow(check=name, verdict=CheckVerdict.FAIL, message=drain.reason, gpu=index))
    return rows


def _gpu_row(
    state: State,
    node: Node,
    gpu: Gpu,
    reading: GpuReading | None,
    holders: dict[int, JobId],
    blocked: dict[int, str],
) -> GpuRow:
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
