"""Step fields of squeue -s: the letters of -o and the names of -O that apply to steps."""

from __future__ import annotations

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.notation.values.durations import format_duration
from warpdeck.slurm.format.format_strings import NULL, Field, Key, Row, cut, fixed, letters_of, whole
from warpdeck.slurm.format.timestamps import Stamps

NOT_ASKED = "N/A"
FIXED = {
    "cluster": fixed("CLUSTER", CLUSTER_NAME),
    "container": fixed("CONTAINER", NULL),
    "cpufreq": fixed("CPU_FREQ", "0-0:0"),
    "cpus-per-tres": fixed("CPUS_PER_TRES", NULL),
    "gres": fixed("TRES_PER_JOB", NULL),
    "mem-per-tres": fixed("MEM_PER_TRES", NULL),
    "network": fixed("NETWORK", NULL),
    "resvports": fixed("RESERVED_PORTS", NULL),
    "timelimit": fixed("TIME_LIMIT", "UNLIMITED", "l"),
    "tres-bind": fixed("TRES_BIND", NULL),
    "tres-freq": fixed("TRES_FREQ", NULL),
    "tres-per-job": fixed("TRES_PER_STEP", NULL),
    "tres-per-node": fixed("TRES_PER_JOB", NULL, "b"),
    "tres-per-socket": fixed("TRES_PER_SOCKET", NULL),
    "tres-per-step": fixed("TRES_PER_STEP", NULL),
    "tres-per-task": fixed("TRES_PER_TASK", NULL),
}


def step_fields(*, now: float, stamps: Stamps) -> dict[str, Field]:
    """Return the fields by name.

    A row is a `LiveStep` of the controller merged with the values of its `row`.
    """
    return {
        **FIXED,
        "arrayjobid": Field("ARRAY_JOB_ID", "", _array),
        "arraytaskid": Field("ARRAY_TASK_ID", "", _task),
        "jobid": _column("JOB_ID", "job_id"),
        "nodes": _column("NODELIST", "node_list", "N")._replace(fit=whole),
        "numcpus": _column("NUM_CPUS", "cpus"),
        "numtasks": _column("TASKS", "tasks", "A", sort=_number("tasks")),
        "partition": _column("PARTITION", "partition", "P"),
        "starttime": Field(
            "START_TIME", "", lambda row: stamps.text(row["start"]), letter="S", sort=_number("start")
        ),
        "stepid": _column("STEPID", "id", "i", sort=Key("", by_id)),
        "stepname": _column("NAME", "name", "j"),
        "stepstate": _column("STATE", "state"),
        "timeused": Field(
            "TIME",
            "",
            lambda row: format_duration(now - row["start"]),
            whole,
            letter="M",
            sort=Key("", lambda row: now - row["start"]),
        ),
        "userid": _column("UID", "uid", "U", sort=_number("uid")),
        "username": _column("USER", "user", "u"),
    }


def step_keys(fields: dict[str, Field]) -> dict[str, Key]:
    """Return the sort key of each letter of -o that applies to steps."""
    return {letter: fields[name].key() for letter, name in letters_of(fields).items()}


def by_id(row: Row) -> tuple[int, int, float, str]:
    """Return the sort key (job, task, number, name). Steps without a number, such as batch, come first."""
    last = str(row["id"]).rpartition(".")[2]
    number = float(last) if last.isdecimal() else -1.0
    return row["array_job_id"], row["array_task_id"] or 0, number, last


def _column(title: str, column: str, letter: str = "", *, sort: Key | None = None) -> Field:
    return Field(title, "", lambda row: str(row[column]), cut, letter, sort)


def _number(column: str) -> Key:
    return Key("", lambda row: row[column])


def _array(row: Row) -> str:
    """Return the array's job ID, or 0 if the job is no array task."""
    return "0" if row["array_task_id"] is None else str(row["array_job_id"])


def _task(row: Row) -> str:
    return NOT_ASKED if row["array_task_id"] is None else str(row["array_task_id"])
