"""The columns that we request from squeue, and the jobs that we make of them.

All fields exist in every version from 20.11 on. The order does not matter, because each field ends with a mark.
Times are Unix seconds and sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from warpdeck.model.states import COMPACT, FINISHED, JobState
from warpdeck.protocol.job_rows import JobRow, WhyRow

from . import reasons, values
from .marked_table import Column

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
_HELD = frozenset({"JobHeldUser", "JobHeldAdmin"})
_COMPACT = {state.value: short for state, short in COMPACT.items()} | {
    "NODE_FAIL": "NF",
    "REQUEUED": "RQ",
    "REQUEUE_HOLD": "RH",
    "REQUEUE_FED": "RF",
    "RESIZING": "RS",
    "REVOKED": "RV",
    "SIGNALING": "SI",
    "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO",
    "STOPPED": "ST",
}
"""Slurm's short codes, also of the states that our own scheduler does not have."""


class SlurmJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record of the queue: a job, a task of an array, or all waiting tasks of an array."""

    row: JobRow
    uid: int
    tasks_text: str
    """The waiting tasks of an array, such as "2-9%2"; otherwise the number of the task or ""."""
    dependency: str
    command: str
    work_dir: str
    stdout: str
    """Path of the output, with the patterns of sbatch as far as this version of squeue leaves them."""


def read_jobs(records: Iterable[Mapping[str, str]]) -> dict[str, SlurmJob]:
    """Return the jobs by label, in squeue's order.

    A job in several partitions has one record, because squeue folds them without --priority.
    """
    return {job.row.label: job for job in map(read_job, records)}


def read_job(fields: Mapping[str, str]) -> SlurmJob:
    """Return one record as a job. A number that Slurm leaves out is 0."""
    state = fields["state"]
    waits = state == JobState.PENDING
    start, end = values.unix_time(fields["start"]), values.unix_time(fields["end"])
    code, sentence = reasons.sentence(fields["reason"])
    tasks = fields["array_tasks"]
    is_one_task = tasks.isdigit()
    gpus, gpu_type = _gpus(fields)
    ended = state in FINISHED
    row = JobRow(
        id=_number(fields["id"]),
        label=fields["label"],
        array_job_id=_number(fields["array_job_id"]) or _number(fields["id"]),
        array_task_id=int(tasks) if is_one_task else None,
        tasks_pending=values.task_count(tasks) if tasks and not is_one_task else int(waits),
        name=fields["name"],
        user=fields["user"],
        account=fields["account"],
        partition=fields["partition"],
        qos=fields["qos"],
        state=state,
        state_short=_COMPACT.get(state, state[:2]),
        why=WhyRow(code=code, sentence=sentence, expected_start=start) if waits else None,
        priority=_number(fields["priority"]) if waits else None,
        nodes=_number(fields["nodes"].partition("-")[0]),
        node_list=fields["node_list"],
        cpus=_number(fields["cpus"]),
        gpus=gpus,
        gpu_type=gpu_type,
        mem_bytes=_memory(fields),
        time_limit_s=values.duration_s(fields["time_limit"]),
        submit=values.unix_time(fields["submit"]) or 0.0,
        start=None if waits else start,
        end=end if ended else None,
        exit_code=_exit_code(fields["exit"]) if ended else "",
        restarts=_number(fields["restarts"]),
        held=code in _HELD,
        comment=fields["comment"],
    )
    return SlurmJob(
        row=row,
        uid=_number(fields["uid"]),
        tasks_text=tasks,
        dependency=fields["dependency"],
        command=fields["command"],
        work_dir=fields["work_dir"],
        stdout=fields["stdout"],
    )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _gpus(fields: Mapping[str, str]) -> tuple[int, str]:
    """Return the number of GPUs and their type.

    A site that does not account for GPUs (AccountingStorageTRES) has none in tres-alloc; then the request counts.
    """
    for name, factor in (
        ("tres", 1),
        ("tres_per_job", 1),
        ("tres_per_node", _number(fields["nodes"].partition("-")[0])),
        ("tres_per_task", _number(fields["tasks"])),
    ):
        count, kind = values.gpus(fields[name])
        if count:
            return count * max(factor, 1), kind
    return 0, ""


def _memory(fields: Mapping[str, str]) -> int:
    """Return the memory of the whole job. MinMemory is per node, or per CPU if that is how it was requested."""
    if size := values.tres(fields["tres"]).get("mem"):
        return values.size_bytes(size)
    return values.size_bytes(fields["memory"])


def _exit_code(text: str) -> str:
    """Return CODE:SIGNAL. squeue prints the status of wait(2) as a number."""
    if ":" in text or not text.isdigit():
        return text
    status = int(text)
    return f"{status >> 8}:{status & 0x7F}"
