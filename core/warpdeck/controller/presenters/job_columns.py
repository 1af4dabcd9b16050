"""The table of a job's columns, the rows that are made from them, and the details of a job. Pure functions.

Each field of `JobRow` and `JobFacts` is one entry: its name and the function that computes it. A `JobRow` has
the fields that screens show. Slurm's commands print five times as many fields. They run seldom, but for up to
ten thousand jobs at once. A client therefore names the fields that it needs, and only these are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.base.errors import UserError
from warpdeck.controller.launch.launching import output_paths
from warpdeck.controller.state.accounting import gpu_types
from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import eligible_unix, waiting_limit_s
from warpdeck.model import COMPACT, FINISHED, Job, JobState, count_tasks
from warpdeck.notation.values.dependencies import format_dependencies
from warpdeck.notation.values.hostlist import collapse
from warpdeck.policy.limits.access import partition_names
from warpdeck.policy.resources.tres import held_tres, requested_tres
from warpdeck.ports.store import JournalEntry
from warpdeck.protocol.job_rows import JobDetail, JobEvent, JobFacts, JobRow

from . import gpu_readings, job_values, node_counts
from .reasons import dependency_text, is_held, reason_of, reason_row_of
from .row_context import RowContext
from .usage_rows import usage_row


def job_row(state: State, job: Job) -> JobRow:
    """Return the row of a job in the queue."""
    job = job_values.as_shown(job)
    fields = {name: value(job) for name, value in _ROW_OF_RECORD}
    for name, value in _ROW_OF_STATE:
        fields[name] = value(state, job)
    return JobRow(**fields)


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
        gpus=gpu_readings.job_gpus(state, job),
        dependency=format_dependencies(
            msgspec.to_builtins(request.dependencies) if request.dependencies else None
        ),
        snapshot=msgspec.to_builtins(request.snapshot) | {"uid": job.uid} if request.snapshot else None,
        recording=request.code_due_unix is not None and job.state is JobState.PENDING,
        message=job.exit.message if job.exit else "",
        notice=job.notice,
        predicted_s=job.predicted_s,
        prediction_error_s=None if job.predicted_s is None or ran_s is None else job.predicted_s - ran_s,
        requeues_at_limit=request.requeue_at_limit and request.requeue,
        events=[JobEvent(at=entry.at_unix, text=entry.text) for entry in journal],
    )


def row_maker(state: State, fields: Sequence[str], *, now: float) -> Callable[[Sequence[Job]], list[Any]]:
    """Return a function that makes rows of jobs.

    With `fields`, a row is a dictionary of these fields of `JobRow` and `JobFacts`. Without fields, it is a
    whole `JobRow`. Raises UserError for an unknown field.
    """
    if not fields:
        return lambda jobs: [job_row(state, job) for job in jobs]
    unknown = [name for name in fields if name not in JOB_FIELDS]
    if unknown:
        raise UserError(f"unknown job field {unknown[0]}", f"known fields: {', '.join(JOB_FIELDS)}")
    known = _columns_at(RowContext(state, now))
    columns = [(name, known[name]) for name in fields]

    def show(jobs: Sequence[Job]) -> list[dict[str, Any]]:
        shown = map(job_values.as_shown, jobs)
        return [{name: value(job) for name, value in columns} for job in shown]

    return show


def _columns_at(context: RowContext) -> dict[str, Callable[[Job], Any]]:
    """Return all columns for one point in time, each as a function of the job."""
    return {
        **RECORD_COLUMNS,
        **{name: partial(value, context.state) for name, value in STATE_COLUMNS.items()},
        **{name: partial(value, context) for name, value in TIMED_COLUMNS.items()},
        **SELECTED_COLUMNS,
    }


def _shown_nodes(context: RowContext, job: Job) -> int:
    if job.allocation or job.state is not JobState.PENDING:
        return job_values.nodes(job)
    if node_counts.is_for_one(job):
        return 1
    partitions = partition_names(job.request.partition, context.state.site.settings)
    return node_counts.estimated_nodes(job, context.largest(next(iter(partitions), "")))


def _used_s(context: RowContext, job: Job) -> float:
    """Return the seconds that the present or last start of the job has run, without suspended time."""
    if job.start_at_unix is None:
        return 0.0
    until = job.end_at_unix or job.suspended_at_unix or context.now
    return max(0.0, until - job.start_at_unix - job.suspended_s)


def _expected_start(context: RowContext, job: Job) -> float | None:
    """Return the expected start of a pending job, which is at least the requested begin."""
    if job.state is not JobState.PENDING:
        return None
    reason = reason_row_of(context.state, job)
    expected = reason.expected_start if reason is not None else None
    return job.request.begin_at_unix if expected is None else expected


def _eligible(context: RowContext, job: Job) -> float | None:
    if is_held(job):
        return job.request.begin_at_unix
    if job.state is JobState.PENDING and dependency_text(context, job):
        return None
    return max(eligible_unix(context.state, job, now=context.now), job.request.begin_at_unix or 0.0)


def _ends(context: RowContext, job: Job) -> float | None:
    if job.end_at_unix is not None:
        return job.end_at_unix
    if job.state is not JobState.PENDING:
        return job.ends_by_unix()
    start, limit_s = _expected_start(context, job), _limit_s(context, job)
    return None if start is None or limit_s is None else start + limit_s


def _limit_s(context: RowContext, job: Job) -> int | None:
    """Return the time limit in seconds that applies to the job now, or would apply if it started now."""
    if job.start_at_unix is not None or job.state is not JobState.PENDING:
        return job.time_limit_s
    return waiting_limit_s(context.state, job, context.namesakes, now=context.now)


def _tres(context: RowContext, job: Job) -> dict[str, int]:
    settings = context.state.site.settings
    prices = settings.billing_weights
    if job.allocation is not None:
        return held_tres(job.allocation, gpu_types(context.state, job), prices)
    default = settings.default_mem_per_cpu_bytes
    return requested_tres(job.request.resources, prices, default_mem_per_cpu=default)


def _tres_asked(context: RowContext, job: Job) -> dict[str, int]:
    settings = context.state.site.settings
    default = settings.default_mem_per_cpu_bytes
    return requested_tres(job.request.resources, settings.billing_weights, default_mem_per_cpu=default)


def _mem_per_cpu(context: RowContext, job: Job) -> int | None:
    requested = job.request.resources
    if requested.mem_per_cpu_bytes is not None:
        return requested.mem_per_cpu_bytes
    if requested.mem_per_node_bytes is not None or requested.mem_per_gpu_bytes is not None:
        return None
    return context.state.site.settings.default_mem_per_cpu_bytes or None


def _oversubscribe(context: RowContext, job: Job) -> str:
    requested = job.request.resources
    by_partition = context.whole_partitions.get(job.partition or job.request.partition, "")
    if requested.exclusive or by_partition == "NO":
        return "NO"
    if requested.share_with in ("", "anybody"):
        return by_partition or ("YES" if requested.share_with else "OK")
    return requested.share_with.upper()


def _shares(context: RowContext, job: Job) -> list[dict[str, object]]:
    """Return the shares by node. `gpus` maps a GPU type to indices; the key "" holds GPUs of unknown type."""
    shown: list[dict[str, object]] = []
    types = gpu_types(context.state, job) if job.allocation else {}
    for share in job.allocation.shares if job.allocation else ():
        gpus: dict[str, list[int]] = {}
        for index, uuid in zip(share.gpus, share.gpu_uuids, strict=False):
            gpus.setdefault(types.get(uuid, ""), []).append(index)
        shown.append({"name": share.node, "cpus": share.cpus, "mem_bytes": share.mem_bytes, "gpus": gpus})
    return shown


def _priority(state: State, job: Job) -> int | None:
    return state.planned.priorities.get(job.id) if job.state is JobState.PENDING else None


def _shown_priority(context: RowContext, job: Job) -> int | None:
    """Return the priority as Slurm shows it.

    In Slurm only a held job has priority 0, and tools treat any job with priority 0 as held.
    """
    if job.state is JobState.SUSPENDED or (job.held and job.state not in FINISHED):
        return 0
    if job.state is JobState.PENDING:
        return max(1, _priority(context.state, job) or 0)
    return None if job.priority is None else max(1, job.priority)


RECORD_COLUMNS: dict[str, Callable[[Job], Any]] = {
    "id": lambda job: job.id,
    "label": Job.label,
    "array_job_id": lambda job: job.family_id,
    "array_task_id": lambda job: job.array_task_id,
    "tasks_pending": lambda job: count_tasks(job.pending_tasks) if job.pending_tasks else 0,
    "name": lambda job: job.request.name,
    "user": lambda job: job.user,
    "uid": lambda job: job.uid,
    "account": lambda job: job.request.account,
    "partition": job_values.partition_of,
    "qos": lambda job: job.request.qos or NORMAL_QOS,
    "state": lambda job: str(job.state),
    "state_short": lambda job: COMPACT[job.state],
    "nodes": job_values.nodes,
    "node_list": job_values.node_list,
    "cpus": job_values.cpus,
    "gpus": job_values.gpus,
    "gpu_type": lambda job: job.request.resources.gpus.type,
    "mem_bytes": job_values.mem_bytes,
    "time_limit_s": job_values.time_limit_s,
    "submit": lambda job: job.submit_at_unix,
    "start": lambda job: job.start_at_unix,
    "end": lambda job: job.end_at_unix,
    "exit_code": lambda job: str(job.exit) if job.exit else "",
    "exit_cause": lambda job: job.exit.cause if job.exit else "",
    "used": lambda job: usage_row(job) if job.shares and job.is_finished else None,
    "restarts": lambda job: job.restarts,
    "held": lambda job: job.held,
    "interactive": lambda job: job.request.pty is not None,
    "tree": lambda job: job.request.snapshot.tree if job.request.snapshot else "",
    "sweep": job_values.sweep,
    "comment": lambda job: job.request.comment,
    "command": job_values.command,
    "work_dir": lambda job: job.request.chdir or job.request.submit_dir,
    "stdout": job_values.stdout,
    "stderr": job_values.stderr,
    "submit_host": lambda job: job.request.submit_host,
    "submit_line": lambda job: job.request.submit_line,
    "batch": lambda job: bool(job.request.script) or job.has_leader,
    "batch_host": lambda job: job.allocation.shares[0].node if job.allocation else "",
    "begin": lambda job: job.request.begin_at_unix,
    "deadline": lambda job: job.request.deadline_unix,
    "leaves": lambda job: job.leaves_by_unix,
    "suspended_at": lambda job: job.suspended_at_unix,
    "suspended_s": lambda job: job.suspended_s,
    "stopped_at": job_values.stopped_at,
    "before_stop_s": job_values.before_stop_s,
    "special_exit": lambda job: job.special_exit and job.state is JobState.PENDING,
    "features": lambda job: job.request.resources.constraint,
    "prefer": lambda job: job.request.resources.prefer,
    "contiguous": lambda job: job.request.resources.contiguous,
    "req_nodes": lambda job: collapse(job.request.resources.nodelist),
    "exc_nodes": lambda job: collapse(job.request.resources.exclude),
    "sched_nodes": lambda job: "",  # Plans name no nodes for future starts.
    "reservation": lambda job: job.reservation,
    "licenses": lambda job: ",".join(f"{name}:{count}" for name, count in job.request.licenses),
    "nice": lambda job: job.request.nice,
    "requeue": lambda job: job.request.requeue,
    "time_min_s": lambda job: job.request.time_min_s,
    "nodes_min": lambda job: job.request.resources.nodes_min,
    "nodes_max": job_values.nodes_max,
    "tasks": job_values.tasks,
    "tasks_per_node": lambda job: job.request.resources.tasks_per_node or 0,
    "cpus_per_task": lambda job: job.request.resources.cpus_per_task,
    "cpus_per_gpu": lambda job: job.request.resources.cpus_per_gpu,
    "cpus_per_node_min": lambda job: job.request.resources.cpus_per_node_min or 0,
    "mem_per_node_bytes": lambda job: job.request.resources.mem_per_node_bytes,
    "mem_per_gpu_bytes": lambda job: job.request.resources.mem_per_gpu_bytes,
    "tmp_disk_bytes": lambda job: job.request.resources.node_minimum.tmp_disk_bytes or 0,
    "max_switches": lambda job: job.request.resources.max_switches,
    "switches_wait_s": lambda job: job.request.resources.switches_wait_s,
    "ended_by_uid": lambda job: job.ended_by_uid,
    "tres_per_job": job_values.requested_gpus("total"),
    "tres_per_node": job_values.requested_gpus("per_node"),
    "tres_per_task": job_values.requested_gpus("per_task"),
    "mail_types": lambda job: job.request.mail_types,
    "mail_user": lambda job: job.request.mail_user,
    "tasks_text": job_values.tasks_text,
    "tasks_folded": job_values.has_folded_tasks,
    "throttle": lambda job: job.request.array.throttle if job.request.array else 0,
    "het_job_id": lambda job: job.component.leader if job.component else 0,
    "het_job_offset": lambda job: job.component.offset if job.component else 0,
    "het_job_id_set": lambda job: job.component.id_set() if job.component else "",
    "recorded_comment": job_values.recorded_comment,
    "admin_comment": job_values.admin_comment,
    "system_comment": lambda job: job.annotations.system_comment if job.annotations else "",
    "derived_exit": job_values.derived_exit,
    "container": lambda job: job.request.container.image if job.request.container else "",
}
"""Columns that depend only on the job's record."""
STATE_COLUMNS: dict[str, Callable[[State, Job], Any]] = {
    "why": reason_row_of,
    "priority": _priority,
    "idle_since": gpu_readings.idle_since,
    "gpu_util_pct": gpu_readings.mean_util_pct,
    "gpu_mem_bytes": gpu_readings.mem_used_bytes,
}
"""Columns of a `JobRow` that also depend on the queue or on measurements."""
TIMED_COLUMNS: dict[str, Callable[[RowContext, Job], Any]] = {
    "priority_told": _shown_priority,
    "used_s": _used_s,
    "eligible": _eligible,
    "expected_start": _expected_start,
    "ends": _ends,
    "limit_s": _limit_s,
    "dependency": dependency_text,
    "reason": reason_of,
    "nodes_told": _shown_nodes,
    "mem_per_cpu_bytes": _mem_per_cpu,
    "oversubscribe": _oversubscribe,
    "tres": _tres,
    "tres_asked": _tres_asked,
    "shares": _shares,
}
"""Columns of `JobFacts` that depend on the rest of the state, or on the time."""
SELECTED_COLUMNS: dict[str, Callable[[Job], Any]] = {"restarts": lambda job: job.user_restarts}
"""Columns that have a different value if a client names them.

Slurm's commands print only the restarts that users see. A whole row has the number of all restarts, which
clients use to distinguish the starts of a job.
"""
JOB_FIELDS = tuple(dict.fromkeys((*JobRow.__struct_fields__, *JobFacts.__struct_fields__)))
"""Names of all columns, beginning with the columns of `JobRow`."""
_ROW_OF_RECORD = [(name, RECORD_COLUMNS[name]) for name in JobRow.__struct_fields__ if name in RECORD_COLUMNS]
_ROW_OF_STATE = list(STATE_COLUMNS.items())
