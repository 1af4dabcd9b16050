"""Single columns of the queue for clients that request specific fields. Each column is computed on its own.

A `JobRow` holds the fields that screens show. Slurm's commands print five times as many fields, seldom, and
for ten thousand jobs at once. A client that names columns can therefore also name those of `JobFacts`, and
only the named columns are computed. All functions are pure.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from warpdeck.base.cluster import ALL_NODES, NORMAL_QOS
from warpdeck.base.errors import UserError
from warpdeck.controller.launch.launching import output_paths
from warpdeck.controller.state.accounting import gpu_types
from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import eligible_unix, waiting_limit_s
from warpdeck.model import COMPACT, FINISHED, Job, JobState, Request, format_ranges
from warpdeck.notation.options.getopt import parse_components
from warpdeck.notation.options.options import SBATCH
from warpdeck.notation.values.hostlist import collapse
from warpdeck.policy.limits.access import partition_names
from warpdeck.policy.resources.tres import asked_tres, held_tres
from warpdeck.protocol.job_rows import JobFacts, JobRow

from . import node_counts
from .reasons import dependency_text, is_held, reason_of, why_of
from .row_context import Column, RowContext
from .serializers import as_shown, idle_since, job_row

WRAPPED = "wrap"
"""Value used in place of the script name on the command line of a job that was submitted with --wrap."""


def shower(state: State, fields: Sequence[str], *, now: float) -> Callable[[Sequence[Job]], list[Any]]:
    """Return a function that makes rows of jobs.

    With `fields`, a row is a dictionary of these fields of `JobRow` and `JobFacts`. Without fields, it is a
    whole `JobRow`. Raises UserError for an unknown field.
    """
    if not fields:
        return lambda jobs: [job_row(state, job) for job in jobs]
    known = dict.fromkeys((*JobRow.__struct_fields__, *JobFacts.__struct_fields__))
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise UserError(f"unknown job field {unknown[0]}", f"known fields: {', '.join(known)}")
    sight = RowContext(state, now)
    columns = [(name, COLUMNS[name]) for name in fields if name in COLUMNS]
    of_row = [name for name in fields if name not in COLUMNS]

    def show(jobs: Sequence[Job]) -> list[dict[str, Any]]:
        jobs = [as_shown(job) for job in jobs]
        rows = [{name: column(sight, job) for name, column in columns} for job in jobs]
        for row, job in zip(rows, jobs if of_row else (), strict=False):
            whole = job_row(state, job)
            row |= {name: getattr(whole, name) for name in of_row}
        return rows

    return show


def _nodes(_: RowContext, job: Job) -> int:
    return len(job.allocation.shares) if job.allocation else job.request.resources.nodes_min


def _nodes_told(sight: RowContext, job: Job) -> int:
    if job.allocation or job.state is not JobState.PENDING:
        return _nodes(sight, job)
    if node_counts.is_for_one(job):
        return 1
    partitions = partition_names(job.request.partition, sight.state.site.settings)
    return node_counts.likely_nodes(job, sight.largest(next(iter(partitions), "")))


def _node_list(_: RowContext, job: Job) -> str:
    return collapse(job.allocation.node_names()) if job.allocation else ""


def _cpus(_: RowContext, job: Job) -> int:
    asked = job.request.resources
    held = sum(share.cpus for share in job.allocation.shares) if job.allocation else 0
    return held or asked.task_count() * asked.cpus_per_task


def _used_s(sight: RowContext, job: Job) -> float:
    """Return the seconds that the present or last start of the job has run, without suspended time."""
    if job.start_at_unix is None:
        return 0.0
    until = job.end_at_unix or job.suspended_at_unix or sight.now
    return max(0.0, until - job.start_at_unix - job.suspended_s)


def _stopped_at(job: Job) -> float | None:
    """Return the time when the job was last suspended or resumed."""
    return job.suspended_at_unix or job.resumed_at_unix


def _before_stop_s(_: RowContext, job: Job) -> float:
    """Return the seconds that the job had run when it was last suspended."""
    stopped_at = _stopped_at(job)
    if stopped_at is None or job.start_at_unix is None:
        return 0.0
    return max(0.0, stopped_at - job.start_at_unix - job.suspended_s)


def _expected_start(sight: RowContext, job: Job) -> float | None:
    why = why_of(sight, job) if job.state is JobState.PENDING else None
    return why.expected_start if why is not None else None


def _eligible(sight: RowContext, job: Job) -> float | None:
    if is_held(job):
        return job.request.begin_at_unix
    if job.state is JobState.PENDING and dependency_text(sight, job):
        return None
    return max(eligible_unix(sight.state, job, now=sight.now), job.request.begin_at_unix or 0.0)


def _ends(sight: RowContext, job: Job) -> float | None:
    if job.end_at_unix is not None:
        return job.end_at_unix
    if job.state is not JobState.PENDING:
        return job.ends_by_unix()
    start, limit_s = _expected_start(sight, job), _limit_s(sight, job)
    return None if start is None or limit_s is None else start + limit_s


def _asked_at_most(job: Job) -> int:
    """Return the maximum number of nodes, or 0 if the request names none."""
    asked = job.request.resources
    return 0 if asked.nodes_open else asked.nodes_max


def _limit_s(sight: RowContext, job: Job) -> int | None:
    """Return the time limit in seconds that applies to the job now, or would apply if it started now."""
    if job.start_at_unix is not None or job.state is not JobState.PENDING:
        return job.time_limit_s
    return waiting_limit_s(sight.state, job, sight.namesakes, now=sight.now)


def _tres(sight: RowContext, job: Job) -> dict[str, int]:
    settings = sight.state.site.settings
    prices = settings.billing_weights
    if job.allocation is not None:
        return held_tres(job.allocation, gpu_types(sight.state, job), prices)
    default = settings.default_mem_per_cpu_bytes
    return asked_tres(job.request.resources, prices, default_mem_per_cpu=default)


def _tres_asked(sight: RowContext, job: Job) -> dict[str, int]:
    settings = sight.state.site.settings
    default = settings.default_mem_per_cpu_bytes
    return asked_tres(job.request.resources, settings.billing_weights, default_mem_per_cpu=default)


def _tres_text(job: Job, per: str) -> str:
    """Return the requested GPUs in Slurm's notation, for example gres:gpu:a100:4."""
    asked = job.request.resources.gpus
    count = getattr(asked, per)
    return ":".join(word for word in ("gres:gpu", asked.type, str(count)) if word) if count else ""


def _mem_per_cpu(sight: RowContext, job: Job) -> int | None:
    asked = job.request.resources
    if asked.mem_per_cpu_bytes is not None:
        return asked.mem_per_cpu_bytes
    if asked.mem_per_node_bytes is not None or asked.mem_per_gpu_bytes is not None:
        return None
    return sight.state.site.settings.default_mem_per_cpu_bytes or None


def _tasks_folded(_: RowContext, job: Job) -> bool:
    """Return whether the record holds tasks of an array that never started, even if it holds only one task.

    Slurm removes the brackets of the last task once it has nodes. 75_[6] is pending or was cancelled while
    pending; 75_6 has started.
    """
    never_began = job.start_at_unix is None and not job.restarts and job.allocation is None
    is_rest = job.id == job.array_job_id and job.array_task_id is not None and never_began
    return bool(job.pending_tasks) or is_rest


def _tasks_text(sight: RowContext, job: Job) -> str:
    one, spec = job.array_task_id, job.request.array
    text = format_ranges(job.pending_tasks) if one is None else str(one)
    limit = f"%{spec.throttle}" if spec is not None and spec.throttle else ""
    return text + limit if text and _tasks_folded(sight, job) else text


def _command(_: RowContext, job: Job) -> str:
    request = job.request
    if request.argv:
        return shlex.join(request.argv)
    return _script_path(request) if request.script or job.is_led else request.holder


@functools.lru_cache(maxsize=1000)
def _script_of(line: str) -> str:
    """Return the script that the command line of a submission names, or "" if it names none."""
    try:
        rest = parse_components(shlex.split(line)[1:], "", SBATCH)[1]
    except (UserError, ValueError):
        return ""
    return "" if not rest or rest[0] == WRAPPED else rest[0]


def _script_path(request: Request) -> str:
    script = _script_of(request.submit_line)
    if not script or script.startswith("/"):
        return script
    return f"{request.submit_dir.rstrip('/')}/{script}"


def _oversubscribe(sight: RowContext, job: Job) -> str:
    asked = job.request.resources
    by_partition = sight.whole_partitions.get(job.partition or job.request.partition, "")
    if asked.exclusive or by_partition == "NO":
        return "NO"
    if asked.share_with in ("", "anybody"):
        return by_partition or ("YES" if asked.share_with else "OK")
    return asked.share_with.upper()


def _sched_nodes(_: RowContext, job: Job) -> str:
    """Return "", because plans name no nodes for future starts."""
    return ""


def _stderr(_: RowContext, job: Job) -> str:
    stdout, stderr = output_paths(job)
    return stderr or stdout


def _shares(sight: RowContext, job: Job) -> list[dict[str, object]]:
    """Return the shares by node. `gpus` maps a GPU type to indices; the key "" holds GPUs of unknown type."""
    shown: list[dict[str, object]] = []
    types = gpu_types(sight.state, job) if job.allocation else {}
    for share in job.allocation.shares if job.allocation else ():
        gpus: dict[str, list[int]] = {}
        for index, uuid in zip(share.gpus, share.gpu_uuids, strict=False):
            gpus.setdefault(types.get(uuid, ""), []).append(index)
        shown.append({"name": share.node, "cpus": share.cpus, "mem_bytes": share.mem_bytes, "gpus": gpus})
    return shown


def _tasks(_: RowContext, job: Job) -> int:
    """Return the number of tasks.

    If it depends on the number of nodes, count the nodes that the job holds.
    """
    asked = job.request.resources
    if asked.tasks is not None or job.allocation is None:
        return asked.task_count()
    return len(job.allocation.shares) * (asked.tasks_per_node or 1)


def _priority(sight: RowContext, job: Job) -> int | None:
    return sight.state.planned.priorities.get(job.id) if job.state is JobState.PENDING else None


def _priority_told(sight: RowContext, job: Job) -> int | None:
    """Return the priority as Slurm shows it.

    In Slurm only a held job has priority 0, and tools treat any job with priority 0 as held.
    """
    if job.state is JobState.SUSPENDED or (job.held and job.state not in FINISHED):
        return 0
    if job.state is JobState.PENDING:
        return max(1, _priority(sight, job) or 0)
    return None if job.priority is None else max(1, job.priority)


def _batch_host(_: RowContext, job: Job) -> str:
    return job.allocation.shares[0].node if job.allocation else ""


def _admin_comment(_: RowContext, job: Job) -> str:
    said = job.annotations.admin_comment if job.annotations else ""
    return said or job.request.admin_comment


def _recorded_comment(_: RowContext, job: Job) -> str:
    said = job.annotations.comment if job.annotations else None
    return job.request.comment if said is None else said


def _derived_exit(_: RowContext, job: Job) -> int | None:
    said = job.annotations
    if said is None or (job.end_at_unix is not None and said.derived_at_unix < job.end_at_unix):
        return None
    return said.derived_exit


ROW_COLUMNS: dict[str, Column] = {
    "id": lambda _, job: job.id,
    "label": lambda _, job: job.label(),
    "array_job_id": lambda _, job: job.family_id,
    "array_task_id": lambda _, job: job.array_task_id,
    "name": lambda _, job: job.request.name,
    "user": lambda _, job: job.user,
    "account": lambda _, job: job.request.account,
    "partition": lambda _, job: job.partition or job.request.partition or ALL_NODES,
    "qos": lambda _, job: job.request.qos or NORMAL_QOS,
    "state": lambda _, job: job.state.value,
    "state_short": lambda _, job: COMPACT[job.state],
    "why": why_of,
    "priority": _priority,
    "nodes": _nodes,
    "node_list": _node_list,
    "cpus": _cpus,
    "gpus": lambda _, job: (
        job.allocation.gpu_count() if job.allocation else job.request.resources.gpu_count()
    ),
    "time_limit_s": lambda _, job: job.time_limit_s if job.start_at_unix else job.request.time_limit_s,
    "submit": lambda _, job: job.submit_at_unix,
    "start": lambda _, job: job.start_at_unix,
    "end": lambda _, job: job.end_at_unix,
    "exit_code": lambda _, job: str(job.exit) if job.exit else "",
    "exit_cause": lambda _, job: job.exit.cause if job.exit else "",
    "idle_since": lambda sight, job: idle_since(sight.state, job),
    "restarts": lambda _, job: job.user_restarts,
    "held": lambda _, job: job.held,
    "comment": lambda _, job: job.request.comment,
}
"""Fields of `JobRow` that are cheaper to compute alone than as part of a row. All other fields are taken from
rows.
"""
FACTS: dict[str, Column] = {
    "priority_told": _priority_told,
    "used_s": _used_s,
    "uid": lambda _, job: job.uid,
    "command": _command,
    "work_dir": lambda _, job: job.request.chdir or job.request.submit_dir,
    "stdout": lambda _, job: output_paths(job)[0],
    "stderr": _stderr,
    "submit_host": lambda _, job: job.request.submit_host,
    "submit_line": lambda _, job: job.request.submit_line,
    "batch": lambda _, job: bool(job.request.script) or job.is_led,
    "batch_host": _batch_host,
    "eligible": _eligible,
    "begin": lambda _, job: job.request.begin_at_unix,
    "deadline": lambda _, job: job.request.deadline_unix,
    "expected_start": _expected_start,
    "ends": _ends,
    "leaves": lambda _, job: job.leaves_by_unix,
    "suspended_at": lambda _, job: job.suspended_at_unix,
    "suspended_s": lambda _, job: job.suspended_s,
    "stopped_at": lambda _, job: _stopped_at(job),
    "before_stop_s": _before_stop_s,
    "special_exit": lambda _, job: job.special_exit and job.state is JobState.PENDING,
    "dependency": dependency_text,
    "reason": reason_of,
    "features": lambda _, job: job.request.resources.constraint,
    "prefer": lambda _, job: job.request.resources.prefer,
    "contiguous": lambda _, job: job.request.resources.contiguous,
    "req_nodes": lambda _, job: collapse(job.request.resources.nodelist),
    "exc_nodes": lambda _, job: collapse(job.request.resources.exclude),
    "sched_nodes": _sched_nodes,
    "reservation": lambda _, job: job.reservation,
    "limit_s": _limit_s,
    "licenses": lambda _, job: ",".join(f"{name}:{count}" for name, count in job.request.licenses),
    "nice": lambda _, job: job.request.nice,
    "requeue": lambda _, job: job.request.requeue,
    "time_min_s": lambda _, job: job.request.time_min_s,
    "nodes_min": lambda _, job: job.request.resources.nodes_min,
    "nodes_max": lambda _, job: _asked_at_most(job),
    "nodes_told": _nodes_told,
    "tasks": _tasks,
    "tasks_per_node": lambda _, job: job.request.resources.tasks_per_node or 0,
    "cpus_per_task": lambda _, job: job.request.resources.cpus_per_task,
    "cpus_per_gpu": lambda _, job: job.request.resources.cpus_per_gpu,
    "mem_per_node_bytes": lambda _, job: job.request.resources.mem_per_node_bytes,
    "mem_per_cpu_bytes": _mem_per_cpu,
    "mem_per_gpu_bytes": lambda _, job: job.request.resources.mem_per_gpu_bytes,
    "oversubscribe": _oversubscribe,
    "ended_by_uid": lambda _, job: job.ended_by_uid,
    "tres_asked": _tres_asked,
    "tres": _tres,
    "tres_per_job": lambda _, job: _tres_text(job, "total"),
    "tres_per_node": lambda _, job: _tres_text(job, "per_node"),
    "tres_per_task": lambda _, job: _tres_text(job, "per_task"),
    "shares": _shares,
    "max_switches": lambda _, job: job.request.resources.max_switches,
    "switches_wait_s": lambda _, job: job.request.resources.switches_wait_s,
    "tmp_disk_bytes": lambda _, job: job.request.resources.node_minimum.tmp_disk_bytes or 0,
    "cpus_per_node_min": lambda _, job: job.request.resources.cpus_per_node_min or 0,
    "mail_types": lambda _, job: job.request.mail_types,
    "mail_user": lambda _, job: job.request.mail_user,
    "tasks_text": _tasks_text,
    "tasks_folded": _tasks_folded,
    "het_job_id": lambda _, job: job.component.leader if job.component else 0,
    "het_job_offset": lambda _, job: job.component.offset if job.component else 0,
    "het_job_id_set": lambda _, job: job.component.id_set() if job.component else "",
    "throttle": lambda _, job: job.request.array.throttle if job.request.array else 0,
    "recorded_comment": _recorded_comment,
    "admin_comment": _admin_comment,
    "system_comment": lambda _, job: job.annotations.system_comment if job.annotations else "",
    "derived_exit": _derived_exit,
    "container": lambda _, job: job.request.container.image if job.request.container else "",
}
COLUMNS = {**ROW_COLUMNS, **FACTS}
