"""`sacct --json`: jobs and steps in the format of Slurm 22.05's data parser (openapi/dbv0.0.38).

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from signal import NSIG, strsignal

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import name_of
from warpdeck.slurm.data_parser.layout import add_values
from warpdeck.slurm.fields.field import Field, Row, constant, needs_of, shaped, table
from warpdeck.slurm.fields.step_fields import step_name, step_row
from warpdeck.slurm.format.serial import meta

from .accounted_columns import (
    JOB_FIELDS,
    STEP_FIELDS,
    AccountedWindow,
    elapsed_s,
    recorded_state,
    suspended_s,
)
from .step_usage import cpu_times

META = meta({"type": "openapi/dbv0.0.38", "name": "Slurm OpenAPI DB v0.0.38"})
TRES_IDS = {"cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "gres/gpu": 1001}
NO_USE: Row = {"max": [], "min": [], "average": [], "total": []}
_TIMES = """
time.elapsed=elapsed time.end=ended|unix time.start=started|unix time.suspended=suspended time.system=system
time.total=total time.user=user_s
"""
JOB_KEYS = f"""
account comment.administrator=admin_comment|none comment.job=comment|none comment.system=system_comment|none
allocation_nodes=nodes array.job_id=array array.limits.max.running.tasks=array_limit array.task=folded_tasks|none
array.task_id=task association.account=account association.cluster=={CLUSTER_NAME} association.partition:=null
association.user=user cluster=={CLUSTER_NAME} constraints=features container|none derived_exit_code {_TIMES}
time.eligible=eligible|unix time.submission=submit|unix time.limit=limit_s|minutes exit_code=exit flags:=[] group
het.job_id=het_job_id het.job_offset=het_offset job_id=id name mcs.label== nodes=nodes_told partition
priority=priority_told|0 qos required.CPUs=cpus required.memory kill_request_user reservation.id:=0 reservation.name
state.current=current state.reason=reason steps tres.allocated=allocated tres.requested=requested user wckey.wckey==
wckey.flags:=[] working_directory=work_dir
"""
"""The keys in the order in which Slurm prints them, each with its field and form as in `field.table`.

A key with periods is a key of an object within the object.
"""
STEP_KEYS = f"""
nodes.list nodes.count=nodes nodes.range=node_list tres.requested=no_use tres.consumed=no_use tres.allocated=allocated
{_TIMES} exit_code=exit tasks.count=tasks pid:=null CPU.requested_frequency.min:=0 CPU.requested_frequency.max:=0
CPU.governor:=[] kill_request_user:=null state=recorded_state statistics.CPU.actual_frequency:=0
statistics.energy.consumed=joules step.job_id=job_id step.het.component:=null step.id step.name=name
task.distribution=layout
"""


def answer(jobs: list[Row], window: AccountedWindow) -> Row:
    """Return the whole document. As in Slurm, --truncate does not change it."""
    whole = AccountedWindow(window.now)
    return {"meta": META, "errors": [], "jobs": [_object(_JOB, {**job, "window": whole}) for job in jobs]}


def _object(values: Mapping[str, Field], row: Row) -> Row:
    """Return the object with the values of a row."""
    found: Row = {}
    add_values(found, values, row)
    return found


def exit_object(code: str) -> Row:
    """Return an exit code as an object, such as {"status": "SUCCESS", "return_code": 0}."""
    number, signal = map(int, code.split(":"))
    if signal:
        name = strsignal(signal) if signal < NSIG else None
        return {
            "status": "SIGNALED",
            "return_code": None,
            "signal": {"signal_id": signal, "name": name or f"Unknown signal {signal}"},
        }
    return {"status": "ERROR" if number else "SUCCESS", "return_code": number}


def tres_list(tres: dict[str, int]) -> list[Row]:
    """Return the TRES as a list of objects with the keys "type", "name", "id" and "count"."""
    found = []
    for name, count in tres.items():
        kind, _, own = name.partition("/")
        if count and ":" not in name:
            found.append({"type": kind, "name": own or None, "id": TRES_IDS.get(name, 0), "count": count})
    return found


def _memory_mib(job: Row) -> int:
    """Return the requested memory in MiB: per node, or else per CPU."""
    if job["mem_per_node_bytes"]:
        return int(job["mem_per_node_bytes"]) >> 20
    per_cpu = (job["mem_per_cpu_bytes"] or 0) >> 20
    return per_cpu or int(job["tres_asked"].get("mem", 0)) // max(1, job["cpus"])


def _steps(job: Row) -> list[Row]:
    return [_object(_STEP, step_row(step, job)) for step in job.get("steps", ())]


def _node_names(row: Row) -> list[str]:
    from warpdeck_agent.wire.hostnames import expand

    return expand(row["node_list"])


def _number(row: Row) -> int | str:
    name = step_name(row)
    return int(name) if name.isdecimal() else name


def _cpu_time(part: str) -> Field:
    """Return a part of the CPU time (total, system or user) as an object."""

    def split(row: Row) -> Row:
        total_s, system_s = cpu_times(row["used"])
        seconds = {"total": total_s, "system": system_s, "user": total_s - system_s}[part]
        return {"seconds": int(seconds), "microseconds": int(seconds % 1 * 1e6)}

    return Field("used", split)


BOTH: dict[str, Field] = {
    "elapsed": Field("start end suspended_at suspended_s", elapsed_s),
    "ended": Field("end", lambda row: row["end"]),
    "started": Field("start", lambda row: row["start"]),
    "suspended": Field("suspended_at suspended_s", lambda row: int(suspended_s(row))),
    "system": _cpu_time("system"),
    "total": _cpu_time("total"),
    "user_s": _cpu_time("user"),
}
JOB_ONLY: dict[str, Field] = {
    "allocated": Field("tres start", lambda row: tres_list(row["tres"] if row["start"] else {})),
    "current": Field(
        "exit_cause state",
        lambda row: "REQUEUED" if row["exit_cause"] == "requeued" else recorded_state(row["state"]),
    ),
    "derived_exit_code": shaped(JOB_FIELDS["derived_exit"], exit_object),
    "exit": shaped(JOB_FIELDS["exit_code"], exit_object),
    "kill_request_user": Field(
        "ended_by_uid", lambda row: None if row["ended_by_uid"] is None else name_of(row["ended_by_uid"])
    ),
    "requested": Field("tres_asked", lambda row: tres_list(row["tres_asked"])),
    "required.memory": Field("mem_per_node_bytes mem_per_cpu_bytes tres_asked cpus", _memory_mib),
    "reservation.name": Field("reservation", lambda row: row["reservation"] or 0),
    "steps": Field("", _steps),
}
STEP_ONLY: dict[str, Field] = {
    "allocated": Field("", lambda row: tres_list(row["tres"])),
    "exit": shaped(STEP_FIELDS["exit_code"], exit_object),
    "joules": Field("", lambda row: int((row["used"] or {}).get("energy_j") or 0)),
    "no_use": constant(NO_USE),
    "nodes.list": Field("", _node_names),
    "step.id": Field("", _number),
}
_JOB = table(JOB_KEYS, {**JOB_FIELDS, **BOTH, **JOB_ONLY})
_STEP = table(STEP_KEYS, {**STEP_FIELDS, **BOTH, **STEP_ONLY})
NEEDS = needs_of([*_JOB.values(), *_STEP.values()])
"""Columns of a job's row that the objects read."""
