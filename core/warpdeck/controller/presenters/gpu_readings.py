"""The last readings of the GPUs that jobs hold. All functions are pure."""

from __future__ import annotations

from warpdeck.controller.state.state import State
from warpdeck.model import GpuReading, Job, JobState, NodeName, NodeReading
from warpdeck.protocol.job_rows import GpuUse


def by_index(reading: NodeReading | None) -> dict[int, GpuReading]:
    """Return the readings of a node's GPUs by GPU index."""
    return {gpu.index: gpu for gpu in reading.gpus} if reading else {}


def job_gpus(state: State, job: Job) -> list[GpuUse]:
    """Return the GPUs that the job holds, with their last readings."""
    found = []
    for share in job.allocation.shares if job.allocation else ():
        node = state.nodes.get(share.node)
        known = {gpu.index: gpu for gpu in node.gpus} if node else {}
        readings = by_index(_reading_during(state, job, share.node))
        for index, uuid in zip(share.gpus, share.gpu_uuids, strict=True):
            reading = readings.get(index)
            found.append(
                GpuUse(
                    node=share.node,
                    index=index,
                    uuid=uuid,
                    util_pct=reading.util_pct if reading else None,
                    mem_used_bytes=reading.mem_used_bytes if reading else None,
                    mem_bytes=known[index].mem_bytes if index in known else _mem_bytes(reading),
                    share_pct=share.gpu_share_pct,
                    isolation=known[index].isolation if index in known else "",
                    source=reading.source if reading else "",
                )
            )
    return found


def _mem_bytes(reading: GpuReading | None) -> int:
    return reading.mem_bytes if reading else 0


def mean_util_pct(state: State, job: Job) -> int | None:
    """Return the mean utilization of the job's GPUs, or None if nothing is known."""
    utils = [gpu.util_pct for gpu in _job_readings(state, job) if gpu.util_pct is not None]
    return round(sum(utils) / len(utils)) if utils else None


def mem_used_bytes(state: State, job: Job) -> int | None:
    """Return the memory in use on the job's GPUs together, or None if nothing is known."""
    mems = [gpu.mem_used_bytes for gpu in _job_readings(state, job) if gpu.mem_used_bytes is not None]
    return sum(mems) if mems else None


def idle_since(state: State, job: Job) -> float | None:
    """Return the time since which an interactive job is idle, if its first node has reported it."""
    if job.request.pty is None or not job.holds_resources or not job.shares:
        return None
    reading = state.node_status.readings.get(job.shares[0].node)
    return next((since for job_id, since in reading.idle if job_id == job.id), None) if reading else None


def gpus_idle_since(state: State, job: Job) -> float | None:
    """Return the time since which all GPUs of a running job are idle, or None if one is in use or its use is unknown."""
    if job.allocation is None or job.state is not JobState.RUNNING:
        return None
    since: list[float] = []
    for share in job.allocation.shares:
        if not share.gpus:
            continue
        reading = _reading_during(state, job, share.node)
        found = next((at for job_id, at in reading.idle_gpus if job_id == job.id), None) if reading else None
        if found is None:
            return None
        since.append(found)
    return max(since, default=None)


def _job_readings(state: State, job: Job) -> list[GpuReading]:
    if job.allocation is None or not job.holds_resources:
        return []
    found: list[GpuReading] = []
    for share in job.allocation.shares:
        reading = _reading_during(state, job, share.node) if share.gpus else None
        if reading is not None:
            found += [gpu for gpu in reading.gpus if gpu.index in share.gpus]
    return found


def _reading_during(state: State, job: Job, name: NodeName) -> NodeReading | None:
    """Return the node's last reading if it was taken after the start of the job.

    Older readings do not describe the job.
    """
    reading = state.node_status.readings.get(name)
    if reading is None or not job.holds_resources or reading.at_unix < (job.start_at_unix or 0.0):
        return None
    return reading
