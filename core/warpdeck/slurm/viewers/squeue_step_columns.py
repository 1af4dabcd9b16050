"""Columns of squeue -s: the letters of -o and the names of -O that apply to steps."""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.notation.values.durations import format_duration
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.fields.step_fields import STEP, step_name
from warpdeck.slurm.format.format_strings import SortKey, TextField, letters_of, whole

from .column_table import text_columns

COLUMNS = f"""
arrayjobid ARRAY_JOB_ID array_job_id
arraytaskid ARRAY_TASK_ID array_task_id|known
cluster CLUSTER ={CLUSTER_NAME}
container CONTAINER =(null)
containerid CONTAINERID =(null)
containertype CONTAINERTYPE =(null)
cpufreq CPU_FREQ =0-0:0
cpus-per-tres CPUS_PER_TRES =(null)
gres TRES_PER_JOB =(null)
jobid JOB_ID job_id
mem-per-tres MEM_PER_TRES =(null)
network NETWORK =(null)
nodes/N NODELIST node_list whole
numcpus NUM_CPUS cpus
numtasks/A TASKS tasks number
partition/P PARTITION partition
resvports RESERVED_PORTS =(null)
starttime/S START_TIME start|moment-na number
stderr STDERR =
stdin STDIN =
stdout STDOUT =
stepid/i STEPID id
stepname/j NAME name
stepstate STATE state
timelimit/l TIME_LIMIT =UNLIMITED
tres-bind TRES_BIND =(null)
tres-freq TRES_FREQ =(null)
tres-per-job TRES_PER_STEP =(null)
tres-per-node/b TRES_PER_JOB =(null)
tres-per-socket TRES_PER_SOCKET =(null)
tres-per-step TRES_PER_STEP =(null)
tres-per-task TRES_PER_TASK =(null)
userid/U UID uid number
username/u USER user
"""
"""The columns in the form of `text_columns`."""


def step_columns(*, now: float) -> dict[str, TextField]:
    """Return the columns of a step by name."""
    found = text_columns(COLUMNS, STEP)
    found["stepid"] = found["stepid"]._replace(sort=SortKey("", by_id))
    found["timeused"] = TextField(
        "TIME",
        "",
        lambda row: format_duration(now - row["start"]),
        whole,
        letter="M",
        sort=SortKey("", lambda row: now - row["start"]),
    )
    return found


def step_keys(fields: Mapping[str, TextField]) -> dict[str, SortKey]:
    """Return the sort key of each letter of -o that applies to steps."""
    return {letter: fields[name].key() for letter, name in letters_of(fields).items()}


def by_id(row: Row) -> tuple[int, int, float, str]:
    """Return the sort key (job, task, number, name). Steps without a number, such as batch, come first."""
    last = step_name(row)
    number = float(last) if last.isdecimal() else -1.0
    return row["array_job_id"], row["array_task_id"] or 0, number, last
