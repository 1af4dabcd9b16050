"""`sacct --json`: jobs and steps in the format of Slurm 22.05's data parser (openapi/dbv0.0.38).

All functions are pure.
"""

from __future__ import annotations

from signal import NSIG, strsignal
from typing import Any

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of, name_of
from warpdeck.slurm.format.job_states import told_exit

from .accounted_usage import cpu_times
from .accounted_values import (
    AccountedWindow,
    exit_code,
    recorded_derived_exit,
    recorded_state,
    step_state,
    waiting_reason,
)

Record = dict[str, Any]
META = {
    "plugin": {"type": "openapi/dbv0.0.38", "name": "Slurm OpenAPI DB v0.0.38"},
    "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"},
}
TRES_IDS = {"cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "gres/gpu": 1001}


def answer(jobs: list[Record], window: AccountedWindow) -> Record:
    """Return the whole document."""
    return {"meta": META, "errors": [], "jobs": [_job(job, window) for job in jobs]}


def _job(job: Record, window: AccountedWindow) -> Record:
    group, _ = group_of(job["uid"])
    limit_s = job["limit_s"]
    return {
        "account": job["account"],
        "comment": {
            "administrator": job["admin_comment"] or None,
            "job": job["recorded_comment"] or None,
            "system": job["system_comment"] or None,
        },
        "allocation_nodes": job["nodes"],
        "array": _array(job),
        "association": {
            "account": job["account"],
            "cluster": CLUSTER_NAME,
            "partition": None,
            "user": job["user"],
        },
        "cluster": CLUSTER_NAME,
        "constraints": job["features"],
        "container": job["container"] or None,
        "derived_exit_code": exit_object(recorded_derived_exit(job)),
        "time": {
            **_times(job, window),
            "eligible": int(job["eligible"] or 0),
            "submission": int(job["submit"]),
            "limit": None if limit_s is None else limit_s // 60,
        },
        "exit_code": exit_object(exit_code(job)),
        "flags": [],
        "group": group,
        "het": {
            "job_id": job["het_job_id"],
            "job_offset": job["het_job_offset"] if job["het_job_id"] else None,
        },
        "job_id": job["id"],
        "name": job["name"],
        "mcs": {"label": ""},
        "nodes": job["node_list"] or "None assigned",
        "partition": job["partition"],
        "priority": job["priority_told"] or 0,
        "qos": job["qos"],
        "required": {"CPUs": job["cpus"], "memory": _memory_mib(job)},
        "kill_request_user": None if job["ended_by_uid"] is None else name_of(job["ended_by_uid"]),
        "reservation": {"id": 0, "name": job["reservation"] or 0},
        "state": {
            "current": "REQUEUED" if job["exit_cause"] == "requeued" else recorded_state(job["state"]),
            "reason": waiting_reason(job),
        },
        "steps": [_step(step, job, window) for step in job.get("steps", ())],
        "tres": {
            "allocated": tres_list(job["tres"] if job["start"] else {}),
            "requested": tres_list(job["tres_asked"]),
        },
        "user": job["user"],
        "wckey": {"wckey": "", "flags": []},
        "working_directory": job["work_dir"],
    }


def _memory_mib(job: Record) -> int:
    """Return the requested memory in MiB: per node, or else per CPU."""
    if job["mem_per_node_bytes"]:
        return int(job["mem_per_node_bytes"]) >> 20
    per_cpu = (job["mem_per_cpu_bytes"] or 0) >> 20
    return per_cpu or int(job["tres_asked"].get("mem", 0)) // max(1, job["cpus"])


def _array(job: Record) -> Record:
    in_array = bool(job["tasks_text"])
    folded = job["tasks_folded"]
    return {
        "job_id": job["array_job_id"] if in_array else 0,
        "limits": {"max": {"running": {"tasks": int((job["tasks_text"].partition("%")[2]) or 0)}}},
        "task": job["tasks_text"] if folded else None,
        "task_id": None if folded else job["array_task_id"],
    }


def _times(row: Record, window: AccountedWindow) -> Record:
    start, end = row["start"], row["end"]
    total_s, system_s = cpu_times(row["used"])
    elapsed = 0 if start is None else int(max(0.0, (end or window.now) - start))
    return {
        "elapsed": elapsed,
        "end": int(end or 0),
        "start": int(start or 0),
        "suspended": int(row.get("suspended_s", 0)),
        "system": _split(system_s),
        "total": _split(total_s),
        "user": _split(total_s - system_s),
    }


def _split(seconds: float) -> Record:
    return {"seconds": int(seconds), "microseconds": int(seconds % 1 * 1e6)}


def exit_object(code: str) -> Record:
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


def tres_list(tres: dict[str, int]) -> list[Record]:
    """Return the TRES as a list of objects with the keys "type", "name", "id" and "count"."""
    found = []
    for name, count in tres.items():
        kind, _, own = name.partition("/")
        if count and ":" not in name:
            found.append({"type": kind, "name": own or None, "id": TRES_IDS.get(name, 0), "count": count})
    return found


def _step(step: Record, job: Record, window: AccountedWindow) -> Record:
    from warpdeck_agent.wire.hostnames import expand

    row = step["row"]
    number = row["id"].rpartition(".")[2]
    none: Record = {"max": [], "min": [], "average": [], "total": []}
    return {
        "nodes": {"list": expand(row["node_list"]), "count": row["nodes"], "range": row["node_list"]},
        "tres": {"requested": none, "consumed": none, "allocated": tres_list(step["tres"])},
        "time": _times(row, window),
        "exit_code": exit_object(told_exit(row)),
        "tasks": {"count": row["tasks"]},
        "pid": None,
        "CPU": {"requested_frequency": {"min": 0, "max": 0}, "governor": []},
        "kill_request_user": None,
        "state": step_state(row),
        "statistics": {
            "CPU": {"actual_frequency": 0},
            "energy": {"consumed": int((row["used"] or {}).get("energy_j") or 0)},
        },
        "step": {
            "job_id": job["id"],
            "het": {"component": None},
            "id": int(number) if number.isdecimal() else number,
            "name": row["name"],
        },
        "task": {"distribution": step["layout"] or "Unknown"},
    }
