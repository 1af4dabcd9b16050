"""The columns of squeue, as functions of a job in slurmrestd's JSON.

A table that is written with them is read like squeue's (`reading.job_table`), so both sources lead to the same jobs. Only
the fields that are needed are decoded. All exist in the same form in every data_parser of `VERSIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from warpdeck.engines.slurm.reading.job_table import COLUMNS

from .server import RestLost

VERSIONS = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41")
"""The versions of data_parser with these fields, the newest first. Slurm 24.11 has the last two, 26.05 the first four."""
_FLAGS = (
    *("COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"),
    *("SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING", "EXPEDITING"),
)
"""Words that squeue shows in place of the state, in the order in which Slurm chooses one of them."""
_CUT = "..."
"""The end of a list of array tasks that slurmrestd has shortened."""


class Number(msgspec.Struct, frozen=True):
    """A number that may be missing or infinite."""

    set: bool
    infinite: bool
    number: float

    def text(self) -> str:
        """Return the number as squeue prints it, or "" if it is missing."""
        return str(int(self.number)) if self.set and not self.infinite else ""


class _Signal(msgspec.Struct, frozen=True):
    id: Number


class _ExitCode(msgspec.Struct, frozen=True):
    return_code: Number
    signal: _Signal


class RestJob(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a job that we read."""

    account: str
    array_job_id: Number
    array_task_id: Number
    array_task_string: str
    command: str
    comment: str
    cpus: Number
    current_working_directory: str
    dependency: str
    end_time: Number
    exit_code: _ExitCode
    het_job_id: Number
    het_job_offset: Number
    job_id: int
    job_state: list[str]
    memory_per_cpu: Number
    memory_per_node: Number
    name: str
    node_count: Number
    nodes: str
    partition: str
    priority: Number
    qos: str
    restart_cnt: int
    standard_output: str
    start_time: Number
    state_description: str
    state_reason: str
    submit_time: Number
    tasks: Number
    time_limit: Number
    tres_alloc_str: str
    tres_per_job: str
    tres_per_node: str
    tres_per_task: str
    tres_req_str: str
    user_id: int
    user_name: str


def _label(job: RestJob) -> str:
    if job.het_job_id.number:
        return f"{job.het_job_id.text()}+{job.het_job_offset.text()}"
    if not job.array_job_id.number:
        return str(job.job_id)
    tasks = job.array_task_id.text() or f"[{job.array_task_string}]"
    return f"{job.array_job_id.text()}_{tasks}"


def _tasks(job: RestJob) -> str:
    if _CUT in job.array_task_string:
        raise RestLost(f"it shortens the list of tasks of array {job.array_job_id.text()}")
    return job.array_task_id.text() or job.array_task_string


def _state(job: RestJob) -> str:
    return next((flag for flag in _FLAGS if flag in job.job_state), job.job_state[0] if job.job_state else "")


def _memory(job: RestJob) -> str:
    size = job.memory_per_node.text() or job.memory_per_cpu.text()
    return f"{size}M" if size else ""


def _exit(job: RestJob) -> str:
    return f"{job.exit_code.return_code.text() or 0}:{job.exit_code.signal.id.text() or 0}"


def time_text(value: Number) -> str:
    if not value.set or not value.number:
        return ""
    return datetime.fromtimestamp(int(value.number), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _time_limit(value: Number) -> str:
    if value.infinite:
        return "UNLIMITED"
    if not value.set:
        return ""
    hours, minutes = divmod(int(value.number), 60)
    return f"{hours // 24}-{hours % 24:02}:{minutes:02}:00"


FIELDS: dict[str, Callable[[RestJob], str]] = {
    "id": lambda job: str(job.job_id),
    "label": _label,
    "array_job_id": lambda job: job.array_job_id.text() if job.array_job_id.number else str(job.job_id),
    "array_tasks": _tasks,
    "name": lambda job: job.name,
    "user": lambda job: job.user_name,
    "uid": lambda job: str(job.user_id),
    "account": lambda job: job.account,
    "partition": lambda job: job.partition,
    "qos": lambda job: job.qos,
    "state": _state,
    "reason": lambda job: job.state_description or job.state_reason,
    "priority": lambda job: job.priority.text(),
    "nodes": lambda job: job.node_count.text(),
    "node_list": lambda job: job.nodes,
    "cpus": lambda job: job.cpus.text(),
    "tasks": lambda job: job.tasks.text(),
    "memory": _memory,
    "tres": lambda job: job.tres_alloc_str or job.tres_req_str,
    "tres_per_job": lambda job: job.tres_per_job,
    "tres_per_node": lambda job: job.tres_per_node,
    "tres_per_task": lambda job: job.tres_per_task,
    "time_limit": lambda job: _time_limit(job.time_limit),
    "submit": lambda job: time_text(job.submit_time),
    "start": lambda job: time_text(job.start_time),
    "end": lambda job: time_text(job.end_time),
    "dependency": lambda job: job.dependency,
    "comment": lambda job: job.comment,
    "command": lambda job: job.command,
    "work_dir": lambda job: job.current_working_directory,
    "stdout": lambda job: job.standard_output,
    "restarts": lambda job: str(job.restart_cnt),
    "exit": _exit,
}
"""Our name of a column -> its text. squeue prints memory with the largest unit that fits, and a short time limit without days;
both are read as the same numbers.
"""
UNTOLD = {"v0.0.42": ("stdout",), "v0.0.41": ("stdout",)}
"""Columns that a version does not tell, which are left empty.

The first two versions replace %j and %A in the name of the output file. A new run of such a job would write over the log of the
old one, so the name is left out, and `scontrol show job` tells it when a user wants the log.
"""


def job_cells(job: RestJob, version: str) -> list[str]:
    """Return the fields of squeue's table."""
    untold = UNTOLD.get(version, ())
    return [
        "" if column.name in untold else _cell(job, column.name, column.width_bytes) for column in COLUMNS
    ]


def _cell(job: RestJob, name: str, width_bytes: int) -> str:
    """Return a text, cut like squeue's, so that a change of the source does not look like a change of the job."""
    text = FIELDS[name](job)
    if len(text) * 4 <= width_bytes:
        return text
    return text.encode(errors="replace")[:width_bytes].decode(errors="replace")
