"""Step columns of squeue -s: the letters of -o and the names of -O that apply to steps."""

from __future__ import annotations

from collections.abc import Callable

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.notation.values.durations import format_duration
from warpdeck.slurm.format.format_strings import NULL, Field, Row, whole
from warpdeck.slurm.format.timestamps import Stamps

from .job_order import Key

LETTERS = {
    "b": "tres-per-node", "i": "stepid", "j": "stepname", "l": "timelimit", "u": "username", "A": "numtasks",
    "M": "timeused", "N": "nodes", "P": "partition", "S": "starttime", "U": "userid",
}  # fmt: skip
NOT_ASKED = "N/A"
FIXED = {
    "cluster": ("CLUSTER", CLUSTER_NAME), "container": ("CONTAINER", NULL), "cpufreq": ("CPU_FREQ", "0-0:0"),
    "cpus-per-tres": ("CPUS_PER_TRES", NULL), "gres": ("TRES_PER_JOB", NULL), "mem-per-tres": ("MEM_PER_TRES", NULL),
    "network": ("NETWORK", NULL), "resvports": ("RESERVED_PORTS", NULL), "timelimit": ("TIME_LIMIT", "UNLIMITED"),
    "tres-bind": ("TRES_BIND", NULL), "tres-freq": ("TRES_FREQ", NULL), "tres-per-job": ("TRES_PER_STEP", NULL),
    "tres-per-node": ("TRES_PER_JOB", NULL), "tres-per-socket": ("TRES_PER_SOCKET", NULL),
    "tres-per-step": ("TRES_PER_STEP", NULL), "tres-per-task": ("TRES_PER_TASK", NULL),
}  # fmt: skip


def step_fields(*, now: float, stamps: Stamps) -> dict[str, Field]:
    """Return the fields by name.

    A row is a `LiveStep` of the controller merged with the values of its `row`.
    """
    made = {name: Field(title, "", _always(text)) for name, (title, text) in FIXED.items()}
    return made | {
        "arrayjobid": Field("ARRAY_JOB_ID", "", _array),
        "arraytaskid": Field("ARRAY_TASK_ID", "", _task),
        "jobid": Field("JOB_ID", "", lambda row: str(row["job_id"])),
        "nodes": Field("NODELIST", "", lambda row: row["node_list"], whole),
        "numcpus": Field("NUM_CPUS", "", lambda row: str(row["cpus"])),
        "numtasks": Field("TASKS", "", lambda row: str(row["tasks"])),
        "partition": Field("PARTITION", "", lambda row: row["partition"]),
        "starttime": Field("START_TIME", "", lambda row: stamps.text(row["start"])),
        "stepid": Field("STEPID", "", lambda row: row["id"]),
        "stepname": Field("NAME", "", lambda row: row["name"]),
        "stepstate": Field("STATE", "", lambda row: row["state"]),
        "timeused": Field("TIME", "", lambda row: format_duration(now - row["start"]), whole),
        "userid": Field("UID", "", lambda row: str(row["uid"])),
        "username": Field("USER", "", lambda row: row["user"]),
    }


def step_keys(fields: dict[str, Field], *, now: float) -> dict[str, Key]:
    """Return the sort key of each letter of -o that applies to steps."""
    numbers = {
        "A": Key("", lambda row: row["tasks"]),
        "i": Key("", by_id),
        "M": Key("", lambda row: now - row["start"]),
        "S": Key("", lambda row: row["start"]),
        "U": Key("", lambda row: row["uid"]),
    }
    return {letter: numbers.get(letter) or Key("", fields[name].text) for letter, name in LETTERS.items()}


def by_id(row: Row) -> tuple[int, int, float, str]:
    """Return the sort key (job, task, number, name). Steps without a number, such as batch, come first."""
    last = str(row["id"]).rpartition(".")[2]
    number = float(last) if last.isdecimal() else -1.0
    return row["array_job_id"], row["array_task_id"] or 0, number, last


def _array(row: Row) -> str:
    """Return the array's job ID, or 0 if the job is no array task."""
    return "0" if row["array_task_id"] is None else str(row["array_job_id"])


def _task(row: Row) -> str:
    return NOT_ASKED if row["array_task_id"] is None else str(row["array_task_id"])


def _always(text: str) -> Callable[[Row], str]:
    return lambda row: text
