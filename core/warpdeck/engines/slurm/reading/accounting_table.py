"""The records that sacct prints: jobs that have ended, their steps, and the resources that they used.

Each field ends with a random mark, as in `marked_table`, because sacct prints the texts of users as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from warpdeck.model import Allocation, GpuUsage, Job, JobId, JobState, ShareStatus
from warpdeck.model.step import Step, StepPart, StepShare
from warpdeck.notation.values.hostlist import expand

from . import jobstats, values
from .job_table import exit_status, read_job, state_of
from .marked_table import Column

COLUMNS = tuple(
    Column(name, field, 0)
    for name, field in (
        ("id", "JobIDRaw"),
        ("label", "JobID"),
        ("name", "JobName"),
        ("user", "User"),
        ("uid", "UID"),
        ("account", "Account"),
        ("partition", "Partition"),
        ("qos", "QOS"),
        ("state", "State"),
        ("exit", "ExitCode"),
        ("submit", "Submit"),
        ("start", "Start"),
        ("end", "End"),
        ("time_limit", "Timelimit"),
        ("nodes", "NNodes"),
        ("node_list", "NodeList"),
        ("cpus", "AllocCPUS"),
        ("requested_cpus", "ReqCPUS"),
        ("tres", "AllocTRES"),
        ("requested_tres", "ReqTRES"),
        ("memory", "ReqMem"),
        ("tasks", "NTasks"),
        ("peak", "MaxRSS"),
        ("cpu_time", "TotalCPU"),
        ("system_time", "SystemCPU"),
        ("usage", "TRESUsageInAve"),
        ("peak_usage", "TRESUsageInMax"),
        ("work_dir", "WorkDir"),
        ("comment", "Comment"),
        ("admin_comment", "AdminComment"),
    )
)
"""All fields exist in every version from 20.11 on."""
_NOT_TOLD = dict.fromkeys(
    ("array_tasks", "reason", "priority", "tres_per_job", "tres_per_node", "tres_per_task", "dependency")
    + ("command", "stdout", "restarts"),
    "",
)


class EndedJob(NamedTuple):
    """A job of the accounting, with the resources that it used, and its steps."""

    job: Job
    steps: list[Step]


def read_ended(records: Iterable[Mapping[str, str]]) -> list[EndedJob]:
    """Return the jobs in the records. The records of the steps follow those of their job."""
    groups: dict[str, list[Mapping[str, str]]] = {}
    for each in records:
        groups.setdefault(each["id"].partition(".")[0], []).append(each)
    return [
        _ended(group[0], group[1:])
        for number, group in groups.items()
        if number.isdigit() and "." not in group[0]["id"]
    ]


def with_usage(job: Job, source: Job) -> Job:
    """Return the job with the resources that `source`, the same job in the accounting, used.

    The accounting also tells which user has canceled it.
    """
    if job.ended_by_uid is None and job.state is JobState.CANCELLED:
        job = msgspec.structs.replace(job, ended_by_uid=source.ended_by_uid)
    if len(job.shares) != len(source.shares) or not job.shares:
        return msgspec.structs.replace(job, allocation=_allocation(job, source), shares=source.shares)
    shares = tuple(
        msgspec.structs.replace(
            share,
            cpu_seconds=used.cpu_seconds,
            system_s=used.system_s,
            peak_mem_bytes=used.peak_mem_bytes,
            gpu=used.gpu,
        )
        for share, used in zip(job.shares, source.shares, strict=True)
    )
    return msgspec.structs.replace(job, shares=shares)


def _allocation(job: Job, source: Job) -> Allocation | None:
    """Return the allocation of the accounting, or the job's own if it is the same. Only the latter names the GPUs."""
    known, told = job.allocation, source.allocation
    if known is None or told is None:
        return told
    is_same = known.node_names() == told.node_names() and known.gpu_count() == told.gpu_count()
    return known if is_same else told


def _ended(record: Mapping[str, str], steps: list[Mapping[str, str]]) -> EndedJob:
    job = read_job(_as_queue_record(record)).job
    nodes = job.allocation.node_names() if job.allocation is not None and job.is_finished else ()
    shares = [ShareStatus(node=node, phase="exited", exit=job.exit) for node in nodes]
    if shares:
        shares[0] = _usage_of_job(shares[0], record, steps)
    made = msgspec.structs.replace(job, shares=tuple(shares), ended_by_uid=_canceled_by(record["state"]))
    found = (_step(made, each) for each in steps)
    return EndedJob(made, [step for step in found if step is not None])


def _canceled_by(state: str) -> int | None:
    """Return the uid of the user who canceled the job, which sacct adds to the state: "CANCELLED by 1000"."""
    _, by, uid = state.partition(" by ")
    return int(uid) if by and uid.isdigit() else None


def _as_queue_record(record: Mapping[str, str]) -> dict[str, str]:
    """Return the record with the columns of the queue. Fields that sacct does not have are ""."""
    array, underscore, tasks = record["label"].partition("_")
    allocated = record["tres"] or record["requested_tres"]
    return {
        **_NOT_TOLD,
        **record,
        "array_job_id": array if underscore else record["id"],
        "array_tasks": tasks.strip("[]") if underscore else "",
        "cpus": record["cpus"] if record["cpus"] not in ("", "0") else record["requested_cpus"],
        "tres": allocated,
        "node_list": "" if record["node_list"] == "None assigned" else record["node_list"],
        "user": record["user"] or record["uid"],
    }


def _usage_of_job(
    share: ShareStatus, record: Mapping[str, str], steps: list[Mapping[str, str]]
) -> ShareStatus:
    """Return the first share with the usage of the whole job, because sacct does not tell it by node."""
    return msgspec.structs.replace(
        share,
        cpu_seconds=values.cpu_seconds(record["cpu_time"]),
        system_s=values.cpu_seconds(record["system_time"]),
        peak_mem_bytes=max((values.size_bytes(each["peak"]) for each in steps), default=0),
        gpu=jobstats.gpu_usage(record["admin_comment"]) or _gpu_usage(record, steps),
    )


def _gpu_usage(record: Mapping[str, str], steps: Iterable[Mapping[str, str]]) -> GpuUsage | None:
    """Return the GPU usage that Slurm's gather plugin measured (gres/gpuutil and gres/gpumem), or None."""
    total: GpuUsage | None = None
    for each in steps:
        usage = values.tres(each["usage"])
        util = usage.get("gres/gpuutil", "")
        start, end = values.unix_time(each["start"]), values.unix_time(each["end"])
        gpus, _ = values.gpus(each["tres"])
        if not util.isdigit() or start is None or end is None or not gpus:
            continue
        seconds, pct = (end - start) * gpus, min(100, int(util))
        peak = values.tres(each["peak_usage"]).get("gres/gpumem", "")
        part = GpuUsage(
            seconds=seconds,
            busy_s=seconds * pct / 100,
            idle_s=seconds if pct < jobstats.IDLE_PCT else 0.0,
            mem_peak_bytes=values.size_bytes(peak, default_unit=""),
            source="sacct",
        )
        total = part if total is None else total.plus(part)
    return total


def _step(job: Job, record: Mapping[str, str]) -> Step | None:
    """Return a step that srun started, or None for the steps batch and extern, which are derived from the job."""
    number = record["id"].rpartition(".")[2].partition("+")[0]
    start, end = values.unix_time(record["start"]), values.unix_time(record["end"])
    names = expand(record["node_list"]) if record["node_list"] else []
    if not number.isdigit() or start is None or not names:
        return None
    cpus, tasks = max(1, _count(record["cpus"])), max(1, _count(record["tasks"]))
    nodes = [share for share in (job.allocation.shares if job.allocation else ()) if share.node in names]
    state = state_of(record["state"])
    status = exit_status(record["exit"], state)
    shares, parts = [], []
    for rank, share in enumerate(nodes):
        ranks = tuple(range(rank, tasks, len(nodes)))
        shares.append(StepShare(node=share.node, ranks=ranks, cpus=max(1, cpus // len(nodes))))
        used = rank == 0
        parts.append(
            StepPart(
                node=share.node,
                phase="exited",
                cpu_seconds=values.cpu_seconds(record["cpu_time"]) if used else 0.0,
                system_s=values.cpu_seconds(record["system_time"]) if used else 0.0,
                peak_mem_bytes=values.size_bytes(record["peak"]) if used else 0,
            )
        )
    return Step(
        job_id=JobId(job.id),
        restarts=job.restarts,
        number=int(number),
        name=record["name"],
        state=state,
        shares=tuple(shares),
        parts=tuple(parts),
        start_at_unix=start,
        end_at_unix=end,
        exit=status,
    )


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0
