"""The columns that we request from squeue, and the jobs that they become.

The jobs are those of `warpdeck.model`, so that all code that shows jobs works with them. Their requests hold what
squeue tells. `known_request` completes them for jobs that were submitted through warpdeck.

All fields exist in every version from 20.11 on. The order does not matter, because each field ends with a mark.
Times are Unix seconds and sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from warpdeck.model import (
    UNKNOWN_GPU,
    Allocation,
    ArraySpec,
    Component,
    ExitStatus,
    GpuUuid,
    Job,
    JobId,
    NodeName,
    PendingReason,
    Ranges,
    Request,
    Resources,
    Share,
    ShareStatus,
)
from warpdeck.model.request import MAX_COUNT, GpuRequest
from warpdeck.model.states import FINISHED, JobState
from warpdeck.notation.values.hostlist import expand

from . import reasons, values
from .marked_table import EMPTY, Column

COLUMNS = (
    Column("id", "JobID", 12),
    Column("label", "JobArrayID", 40),
    Column("array_job_id", "ArrayJobID", 12),
    Column("array_tasks", "ArrayTaskID", 80),
    Column("name", "Name", 80),
    Column("user", "UserName", 32),
    Column("uid", "UserID", 12),
    Column("account", "Account", 40),
    Column("partition", "Partition", 60),
    Column("qos", "QOS", 32),
    Column("state", "State", 16),
    Column("reason", "Reason", 160),
    Column("priority", "PriorityLong", 12),
    Column("nodes", "NumNodes", 10),
    Column("node_list", "NodeList", 120),
    Column("cpus", "NumCPUs", 10),
    Column("tasks", "NumTasks", 10),
    Column("memory", "MinMemory", 12),
    Column("tres", "tres-alloc", 120),
    Column("tres_per_job", "tres-per-job", 40),
    Column("tres_per_node", "tres-per-node", 40),
    Column("tres_per_task", "tres-per-task", 40),
    Column("time_limit", "TimeLimit", 16),
    Column("submit", "SubmitTime", 20),
    Column("start", "StartTime", 20),
    Column("end", "EndTime", 20),
    Column("dependency", "Dependency", 80),
    Column("comment", "Comment", 80),
    Column("command", "Command", 160),
    Column("work_dir", "WorkDir", 160),
    Column("stdout", "STDOUT", 160),
    Column("restarts", "RestartCnt", 6),
    Column("exit", "exit_code", 12),
)
"""A longer text is cut. Widths are a compromise: squeue pads each field, and a queue may have 50,000 records."""
WIDE_LIST_BYTES = 4096
ONE_JOB_COLUMNS = tuple(
    column._replace(width_bytes=WIDE_LIST_BYTES) if column.name == "array_tasks" else column
    for column in COLUMNS
)
"""The columns for a look at a single job, with room for the list of an array whose tasks form no few ranges."""
_WIDTHS = {column.name: column.width_bytes for column in COLUMNS}
_TEXTS = ("name", "account", "comment")
"""Texts of a request that a user may choose and that squeue shows."""
_HELD = frozenset({"JobHeldUser", "JobHeldAdmin"})
REVOKED = "REVOKED"
_OTHER_STATES = {
    "REQUEUED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.COMPLETING,
    "STAGE_OUT": JobState.COMPLETING,
    "STOPPED": JobState.SUSPENDED,
    REVOKED: JobState.CANCELLED,
    "EXPEDITING": JobState.PENDING,
}
"""States of Slurm that our own scheduler does not have, and the nearest state that it has."""
_CAUSES = {
    JobState.TIMEOUT: "timeout",
    JobState.CANCELLED: "cancelled",
    JobState.OUT_OF_MEMORY: "oom",
    JobState.NODE_FAIL: "node_fail",
    JobState.DEADLINE: "deadline",
    JobState.BOOT_FAIL: "launch_failed",
}
"""State in which a job ended -> the cause in its exit status."""
_NOT_BEGUN_SIGNAL = 53
"""slurmd reports this signal for a job whose script it could not start."""
ELSEWHERE = "another cluster of the federation has it; see `squeue --federation`"
"""A job of a federation is submitted to several clusters. The first that can start it has it, and the others revoke it."""
NOT_BEGUN = "slurmd could not write its output file or enter its folder"
MAX_BYTES = 2**60
MAX_GPUS = 100_000
"""Number of GPUs up to which those of a job are counted. Slurm shows refused requests with any number."""
NO_UUID = GpuUuid("")
"""Slurm does not tell the UUIDs of GPUs."""


class SeenJob(NamedTuple):
    """A record of the queue: a job, a task of an array, or all waiting tasks of an array."""

    job: Job
    reason: PendingReason | None
    priority: int | None
    command: str
    """Path of the script, which contains our nonce if the job was submitted through warpdeck."""
    cut_after: int | None = None
    """The last waiting task of a list that was cut. It is not known which later tasks wait."""


def read_jobs(records: Iterable[Mapping[str, str]]) -> list[SeenJob]:
    """Return the jobs, in squeue's order.

    A job in several partitions has one record, because squeue folds them without --priority.
    """
    return [read_job(each) for each in records]


def read_job(fields: Mapping[str, str], *, list_bytes: int = 0) -> SeenJob:
    """Return one record as a job. A number that Slurm leaves out is 0.

    `list_bytes` is the width of the column of array tasks, by default that in COLUMNS.
    """
    job_id = JobId(_number(fields["id"]))
    state = state_of(fields["state"])
    waits = state is JobState.PENDING
    code, sentence = reasons.sentence(fields["reason"])
    start, end = values.unix_time(fields["start"]), values.unix_time(fields["end"])
    listed, is_cut = _whole_items(fields["array_tasks"], list_bytes or _WIDTHS["array_tasks"])
    one_task, waiting_tasks, array = _tasks(listed)
    allocation = _allocation(fields)
    component = _component(fields["label"])
    submitted = values.unix_time(fields["submit"]) or 0.0
    # Slurm knows the exit status of a job whose nodes still run epilogs.
    ended = exit_status(fields["exit"], state) if state in {*FINISHED, JobState.COMPLETING} else None
    if fields["state"] == REVOKED:
        ended, end = ExitStatus(cause="unknown", message=ELSEWHERE), end or submitted
    job = Job(
        id=job_id,
        array_job_id=component.leader if component else JobId(_number(fields["array_job_id"])) or job_id,
        request_key=job_id if component and component.offset else 0,
        request=_request(fields, array),
        user=fields["user"],
        uid=_number(fields["uid"]),
        state=state,
        component=component,
        array_task_id=one_task,
        pending_tasks=waiting_tasks if waits else (),
        submit_at_unix=submitted,
        eligible_at_unix=submitted,
        start_at_unix=None if waits else start,
        end_at_unix=end if state in FINISHED else None,
        restarts=_number(fields["restarts"]),
        held=waits and code in _HELD,
        held_by_admin=waits and code == "JobHeldAdmin",
        special_exit=fields["state"] == "SPECIAL_EXIT",
        requeued_held=fields["state"] != "SPECIAL_EXIT" and reasons.is_requeued_held(fields["reason"]),
        partition="" if waits else fields["partition"],
        priority=None if waits else _number(fields["priority"]),
        time_limit_s=values.duration_s(fields["time_limit"]),
        allocation=None if waits else allocation,
        shares=_statuses(allocation, state, fields) if allocation and not waits and ended is None else (),
        exit=ended,
    )
    why = PendingReason(code=code, sentence=sentence, expected_start_unix=start) if waits else None
    priority = _number(fields["priority"]) if waits else None
    return SeenJob(
        job,
        why,
        priority,
        fields["command"],
        cut_after=job.pending_tasks[-1][1] if is_cut and job.pending_tasks else None,
    )


def state_of(text: str) -> JobState:
    """Return the state that squeue or sacct names, or the nearest one. sacct adds "by UID" to CANCELLED."""
    word = text.partition(" ")[0]
    return _OTHER_STATES.get(word) or (JobState(word) if word in JobState.__members__ else JobState.PENDING)


def known_request(known: Request, seen: Request) -> Request:
    """Return the request of a job that was submitted through warpdeck, with the changes that squeue tells."""
    texts = {name: _uncut(getattr(known, name), getattr(seen, name), name) for name in _TEXTS}
    return msgspec.structs.replace(
        known,
        partition=seen.partition or known.partition,
        qos=seen.qos,
        time_limit_s=seen.time_limit_s,
        **texts,
    )


def _uncut(known: str, seen: str, column: str) -> str:
    """Return the known text if squeue may show it as `seen`: cut, without spaces at its ends, or as no value."""
    shown = known.encode(errors="replace")[: _WIDTHS[column]].decode(errors="ignore").strip()
    # A character that was cut in two is read as U+FFFD.
    return known if seen.rstrip("\ufffd") == ("" if shown in EMPTY else shown) else seen


def _request(fields: Mapping[str, str], array: ArraySpec | None) -> Request:
    limit_s = values.duration_s(fields["time_limit"])
    nodes = _count(fields["nodes"].partition("-")[0]) or 1
    gpus, gpu_type = _gpus(fields)
    return Request(
        name=fields["name"],
        argv=(fields["command"],) if fields["command"] else (),
        resources=_resources(
            nodes, _count(fields["cpus"]), _count(fields["tasks"]), gpus, gpu_type, _memory(fields)
        ),
        time_limit_s=limit_s or None,
        unlimited=limit_s is None,
        partition=fields["partition"],
        account=fields["account"],
        qos=fields["qos"],
        array=array,
        output=_output(fields),
        submit_dir=fields["work_dir"] or "/",
        chdir=fields["work_dir"],
        comment=fields["comment"],
    )


@lru_cache(maxsize=10_000)
def _resources(nodes: int, cpus: int, tasks: int, gpus: int, gpu_type: str, memory: int) -> Resources:
    """Return the resources. Most jobs of a queue share theirs with others, so equal ones are one object."""
    tasks = tasks or 1
    return Resources(
        nodes_min=nodes,
        nodes_max=nodes,
        tasks=tasks,
        cpus_per_task=max(1, cpus // tasks),
        gpus=GpuRequest(total=gpus or None, type=gpu_type),
        mem_per_node_bytes=memory // nodes or None,
    )


def _output(fields: Mapping[str, str]) -> str:
    """Return the pattern of the output file.

    squeue of 20.11 and 22.05 prints the default name of a job for the tasks of an array, too. The right name of a task
    is slurm-%A_%a.out.
    """
    path, array = fields["stdout"], fields["array_job_id"]
    if fields["array_tasks"] and path.endswith((f"/slurm-{array}.out", f"/slurm-{fields['id']}.out")):
        return path.rpartition("/")[0] + "/slurm-%A_%a.out"
    return path


def _whole_items(text: str, width: int) -> tuple[str, bool]:
    """Return a list of array tasks without an item that may have been cut, and whether it was cut."""
    is_cut = text.endswith("...") or len(text.encode()) == width
    return (text.rpartition(",")[0] if is_cut else text), is_cut


def _tasks(text: str) -> tuple[int | None, Ranges, ArraySpec | None]:
    """Return the number of a single task, or the waiting tasks, and the specification of the array."""
    if text.isdigit():
        task = int(text)
        return task, (), ArraySpec(ranges=((task, task, 1),))
    ranges, throttle = values.task_ranges(text)
    if not ranges:
        return None, (), None
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return ranges[0][0], (), ArraySpec(ranges=ranges, throttle=throttle)
    return None, ranges, ArraySpec(ranges=ranges, throttle=throttle)


def _component(label: str) -> Component | None:
    """Return the position in a heterogeneous job. squeue labels its components 12+0, 12+1 and so on.

    The number of components is not told, so it is at least the offset.
    """
    leader, plus, offset = label.partition("+")
    if not plus or not leader.isdigit() or not offset.isdigit():
        return None
    return Component(leader=JobId(int(leader)), offset=int(offset), size=int(offset) + 1)


def _allocation(fields: Mapping[str, str]) -> Allocation | None:
    """Return the allocation. squeue tells its totals only, so they are distributed evenly over the nodes.

    `allocation_table` completes it.
    """
    names = expand(fields["node_list"]) if fields["node_list"] else []
    if not names:
        return None
    gpus, _ = _gpus(fields)
    cpus, memory, count = _count(fields["cpus"]), _memory(fields), len(names)
    shares = []
    for rank, name in enumerate(names):
        held = gpus // count + (rank < gpus % count)
        shares.append(
            Share(
                node=NodeName(name),
                cpus=cpus // count + (rank < cpus % count),
                mem_bytes=memory // count,
                gpus=(UNKNOWN_GPU,) * held,
                gpu_uuids=(NO_UUID,) * held,
            )
        )
    return Allocation(shares=tuple(shares))


def _statuses(allocation: Allocation, state: JobState, fields: Mapping[str, str]) -> tuple[ShareStatus, ...]:
    """Return the states of the nodes of a job that has not ended. The accounting tells the usage afterwards."""
    phase = "launching" if state is JobState.CONFIGURING else "running"
    return tuple(
        ShareStatus(node=share.node, phase=phase, work_dir=fields["work_dir"]) for share in allocation.shares
    )


def exit_status(text: str, state: JobState) -> ExitStatus:
    """Return the exit status. squeue prints the status of wait(2) as a number, and sacct CODE:SIGNAL."""
    code, _, signal = text.partition(":")
    if signal.isdigit() and code.isdigit():
        number, killed_by = int(code), int(signal)
    else:
        status = _number(text)
        number, killed_by = status >> 8, status & 0x7F
    if state is JobState.FAILED and killed_by == _NOT_BEGUN_SIGNAL:
        return ExitStatus(code=number, signal=killed_by, cause="launch_failed", message=NOT_BEGUN)
    return ExitStatus(code=number, signal=killed_by, cause=_CAUSES.get(state, ""))


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _count(text: str) -> int:
    """Return a number of nodes, CPUs or tasks, or 0 if it was not set. squeue prints 4294967294 (NO_VAL) then."""
    number = _number(text)
    return number if number <= MAX_COUNT else 0


def _gpus(fields: Mapping[str, str]) -> tuple[int, str]:
    """Return the number of GPUs and their type.

    A site that does not account for GPUs (AccountingStorageTRES) has none in tres-alloc; then the request counts.
    """
    for name, factor in (
        ("tres", 1),
        ("tres_per_job", 1),
        ("tres_per_node", _count(fields["nodes"].partition("-")[0])),
        ("tres_per_task", _count(fields["tasks"])),
    ):
        count, kind = values.gpus(fields[name])
        if count:
            return min(count * max(factor, 1), MAX_GPUS), kind
    return 0, ""


def _memory(fields: Mapping[str, str]) -> int:
    """Return the memory of the whole job. MinMemory is per node, or per CPU if that is how it was requested."""
    if size := values.tres(fields["tres"]).get("mem"):
        return min(values.size_bytes(size), MAX_BYTES)
    return min(values.size_bytes(fields["memory"]), MAX_BYTES)
