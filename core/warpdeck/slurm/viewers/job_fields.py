"""Job fields of squeue: every letter of -o and every name of -O, formatted as Slurm formats them.

Each field is one entry of a table: its title, the columns that it reads, its text, its letter, and its sort
key. Properties that our jobs do not have are printed as Slurm prints options that were not requested: (null),
N/A, 0 or *.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of
from warpdeck.notation.values.durations import format_duration
from warpdeck.slurm.format.format_strings import NULL, Field, Key, Row, cut, fixed, whole
from warpdeck.slurm.format.job_states import CODES, STATE_FIELDS, told_exit, told_state
from warpdeck.slurm.format.job_values import (
    MEMORY,
    MIN_CPUS,
    STARTS,
    cpus_per_tres,
    mem_per_tres,
    memory_bytes,
    min_cpus,
    start_of,
    wait_status,
)
from warpdeck.slurm.format.task_lists import DEFAULT_LENGTH, length_of, task_list
from warpdeck.slurm.format.timestamps import Stamps
from warpdeck.slurm.format.units import MIB, exact, tres_text

from .job_order import NEVER, by_id

NOT_ASKED = "N/A"
OF_REASON = frozenset({"PENDING", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "FAILED"})
"""Job states whose reason is printed instead of the node list."""
OLD_NAMES = {
    "cpuspertask": "cpus-per-task", "packjobid": "hetjobid", "packjobidset": "hetjobidset",
    "packjoboffset": "hetjoboffset", "shared": "oversubscribe",
}  # fmt: skip
"""Field names of earlier Slurm releases, which scripts still use."""
ID_LENGTH = 31
"""Printed characters of a folded array's job ID if SLURM_BITSTR_LEN is not set, as in Slurm."""
PRIORITY_SCALE = 2**32 - 1
FIRST_NODE = Key("batch_host", lambda row: (not row["batch_host"], row["batch_host"]))
_duration = lru_cache(maxsize=10_000)(format_duration)
"""The cache helps because most jobs of a long queue have the same run time, 0."""


def _column(
    title: str,
    column: str,
    empty: str = "",
    *,
    letter: str = "",
    fit: Callable[[str, int, bool], str] = cut,
    sort: Key | None = None,
) -> Field:
    """Return a field that prints one column of the row unchanged, or `empty` for an empty value."""
    return Field(title, column, lambda row: str(row[column] or empty), fit, letter, sort)


def _number(column: str) -> Key:
    return Key(column, lambda row: row[column] or 0)


def _switches_wait(row: Row) -> str:
    return format_duration(row["switches_wait_s"] if row["max_switches"] else 0)


def _min_tmp_disk(row: Row) -> str:
    return exact(row["tmp_disk_bytes"] // MIB, "M") if row["tmp_disk_bytes"] else "0"


def _reason_list(row: Row) -> str:
    """Return the reason in parentheses, or the nodes.

    A running job shows its nodes even if it is already held for its next run.
    """
    return f"({row['reason']})" if row["state"] in OF_REASON else str(row["node_list"])


def _fit_reason(text: str, width: int, right: bool) -> str:
    """Fit NODELIST(REASON) into its column. Reasons are cut; node lists are not."""
    return cut(text, width, right) if text.startswith("(") else whole(text, width, right)


def _left(row: Row) -> str:
    if row["limit_s"] is None:
        return format_duration(None)
    return format_duration(int(row["limit_s"]) - int(row["used_s"]))


FIXED = {
    "allocsid": fixed("ALLOC_SID", "0"),
    "associd": fixed("ASSOC_ID", "0"),
    "boardspernode": fixed("BOARDS_PER_NODE", "0"),
    "burstbuffer": fixed("BURST_BUFFER", NULL),
    "burstbufferstate": fixed("BURST_BUFFER_STATE", NULL),
    "cluster": fixed("CLUSTER", CLUSTER_NAME),
    "clusterfeature": fixed("CLUSTER_FEATURES", NULL),
    "cores": fixed("CORES_PER_SOCKET", "*", "I"),
    "corespec": fixed("CORE_SPEC", NOT_ASKED, "X"),
    "delayboot": fixed("DELAY_BOOT", "0:00"),
    "derivedec": fixed("DERIVED_EC", "0"),
    "lastschedeval": fixed("LAST_SCHED_EVAL", NOT_ASKED),
    "mcslabel": fixed("MCSLABEL", NULL),
    "network": fixed("NETWORK", NULL),
    "ntperboard": fixed("NTASKS_PER_BOARD", "0"),
    "ntpercore": fixed("NTASKS_PER_CORE", NOT_ASKED),
    "ntpersocket": fixed("NTASKS_PER_SOCKET", NOT_ASKED),
    "origin": fixed("ORIGIN", "NA"),
    "originraw": fixed("ORIGIN_RAW", "NA"),
    "profile": fixed("PROFILE", "NotSet"),
    "reboot": fixed("REBOOT", "0"),
    "resizetime": fixed("RESIZE_TIME", NOT_ASKED, fit=whole),
    "sct": fixed("S:C:T", "*:*:*", "z"),
    "selectjobinfo": fixed("", "", "s"),
    "siblingsactive": fixed("ACTIVE_SIBLINGS", "NA"),
    "siblingsactiveraw": fixed("ACTIVE_SIBLINGS_RAW", "NA"),
    "siblingsviable": fixed("VIABLE_SIBLINGS", "NA"),
    "siblingsviableraw": fixed("VIALBLE_SIBLINGS_RAW", "NA"),
    "sockets": fixed("SOCKETS_PER_NODE", "*", "H"),
    "sperboard": fixed("SOCKETS_PER_BOARD", "0"),
    "stdin": fixed("STDIN", "/dev/null"),
    "system_comment": fixed("SYSTEM_COMMENT", NULL),
    "threads": fixed("THREADS_PER_CORE", "*", "J"),
    "tres-bind": fixed("TRES_BIND", NOT_ASKED),
    "tres-freq": fixed("TRES_FREQ", NOT_ASKED),
    "tres-per-socket": fixed("TRES_PER_SOCKET", NOT_ASKED),
    "wckey": fixed("WCKEY", NULL, "w"),
}
"""Fields with the same value for all our jobs, in Slurm's spelling."""
COLUMNS = {
    "account": _column("ACCOUNT", "account", NULL, letter="a"),
    "admin_comment": _column("ADMIN_COMMENT", "admin_comment", NULL),
    "allocnodes": _column("ALLOC_NODES", "submit_host", NULL),
    "arrayjobid": _column("ARRAY_JOB_ID", "array_job_id", letter="F"),
    "batchhost": _column("EXEC_HOST", "batch_host", "n/a", letter="B"),
    "command": _column("COMMAND", "command", NULL, letter="o"),
    "comment": _column("COMMENT", "comment", NULL, letter="k"),
    "container": _column("CONTAINER", "container", NULL),
    "cpus-per-task": _column("CPUS_PER_TASK", "cpus_per_task"),
    "dependency": _column("DEPENDENCY", "dependency", NULL, letter="E"),
    "excnodes": _column("EXC_NODES", "exc_nodes", letter="x"),
    "feature": _column("FEATURES", "features", NULL, letter="f"),
    "gres": _column("TRES_PER_NODE", "tres_per_node", NOT_ASKED),
    "hetjobid": _column("HET_JOB_ID", "het_job_id", NOT_ASKED),
    "hetjobidset": _column("HET_JOB_ID_SET", "het_job_id_set", NOT_ASKED),
    "jobid": _column("JOBID", "id", letter="A"),
    "licenses": _column("LICENSES", "licenses", NULL, letter="W"),
    "maxcpus": _column("MAX_CPUS", "cpus"),
    "name": _column("NAME", "name", letter="j"),
    "nice": _column("NICE", "nice", "0", letter="y"),
    "nodelist": _column("NODELIST", "node_list", letter="N", fit=whole, sort=FIRST_NODE),
    "ntpernode": _column("NTASKS_PER_NODE", "tasks_per_node", "0"),
    "numcpus": _column("CPUS", "cpus", letter="C", sort=_number("cpus")),
    "numnodes": _column("NODES", "nodes_told", letter="D", sort=_number("nodes_told")),
    "numtasks": _column("TASKS", "tasks"),
    "oversubscribe": _column("OVER_SUBSCRIBE", "oversubscribe", letter="h"),
    "partition": _column("PARTITION", "partition", letter="P"),
    "prefer": _column("PREFER", "prefer", NULL),
    "prioritylong": _column("PRIORITY", "priority_told", "0", letter="Q", sort=_number("priority_told")),
    "qos": _column("QOS", "qos", NULL, letter="q"),
    "reason": _column("REASON", "reason", "None", letter="r"),
    "reqnodes": _column("REQ_NODES", "req_nodes", letter="n", fit=whole),
    "reqswitch": _column("REQ_SWITCH", "max_switches", "0"),
    "reservation": _column("RESERVATION", "reservation", NULL, letter="v"),
    "restartcnt": _column("RESTART_COUNT", "restarts", "0"),
    "schednodes": _column("SCHEDNODES", "sched_nodes", NULL, letter="Y", fit=whole),
    "stderr": _column("STDERR", "stderr"),
    "stdout": _column("STDOUT", "stdout"),
    "tres-per-job": _column("TRES_PER_JOB", "tres_per_job", NOT_ASKED),
    "tres-per-node": _column("TRES_PER_NODE", "tres_per_node", NOT_ASKED, letter="b"),
    "tres-per-task": _column("TRES_PER_TASK", "tres_per_task", NOT_ASKED),
    "userid": _column("UID", "uid", "0", letter="U", sort=_number("uid")),
    "username": _column("USER", "user", letter="u"),
    "workdir": _column("WORK_DIR", "work_dir", NULL, letter="Z"),
}
"""Fields that print one column of the row unchanged."""
COMPUTED = {
    "batchflag": Field("BATCH_FLAG", "batch", lambda row: "1" if row["batch"] else "0"),
    "contiguous": Field("CONTIGUOUS", "contiguous", lambda row: str(int(row["contiguous"])), letter="O"),
    "cpus-per-tres": Field("CPUS_PER_TRES", "cpus_per_gpu", lambda row: cpus_per_tres(row) or NOT_ASKED),
    "exit_code": Field("EXIT_CODE", "exit_code state", lambda row: str(wait_status(told_exit(row)))),
    "groupid": Field("GROUP", "uid", lambda row: str(group_of(row["uid"])[1]), letter="G"),
    "groupname": Field("GROUP", "uid", lambda row: group_of(row["uid"])[0], letter="g"),
    "hetjoboffset": Field(
        "HET_JOB_OFFSET",
        "het_job_id het_job_offset",
        lambda row: str(row["het_job_offset"]) if row["het_job_id"] else NOT_ASKED,
    ),
    "maxnodes": Field(
        "MAX_NODES", "nodes_told nodes_max", lambda row: str(max(row["nodes_told"], row["nodes_max"]))
    ),
    "mem-per-tres": Field("MEM_PER_TRES", "mem_per_gpu_bytes", lambda row: mem_per_tres(row) or NOT_ASKED),
    "mincpus": Field(
        "MIN_CPUS", MIN_CPUS, lambda row: str(min_cpus(row)), letter="c", sort=Key(MIN_CPUS, min_cpus)
    ),
    "mintime": Field("TIME_MIN", "time_min_s", lambda row: format_duration(row["time_min_s"] or 0)),
    "mintmpdisk": Field("MIN_TMP_DISK", "tmp_disk_bytes", _min_tmp_disk, letter="d"),
    "priority": Field(
        "PRIORITY",
        "priority_told",
        lambda row: f"{(row['priority_told'] or 0) / PRIORITY_SCALE:16.14f}",
        letter="p",
        sort=_number("priority_told"),
    ),
    "reasonlist": Field("NODELIST(REASON)", "state reason node_list", _reason_list, _fit_reason, letter="R"),
    "requeue": Field("REQUEUE", "requeue", lambda row: "1" if row["requeue"] else "0"),
    "state": Field("STATE", STATE_FIELDS, told_state, letter="T"),
    "statecompact": Field(
        "ST",
        STATE_FIELDS,
        lambda row: CODES[told_state(row)],
        letter="t",
        sort=Key("state", lambda row: row["state"]),
    ),
    "timeleft": Field(
        "TIME_LEFT",
        "limit_s used_s",
        _left,
        whole,
        letter="L",
        sort=Key("limit_s used_s", lambda row: (row["limit_s"] or NEVER) - row["used_s"]),
    ),
    "timelimit": Field(
        "TIME_LIMIT",
        "limit_s",
        lambda row: format_duration(row["limit_s"]),
        whole,
        letter="l",
        sort=Key("limit_s", lambda row: row["limit_s"] or NEVER),
    ),
    "timeused": Field(
        "TIME",
        "used_s",
        lambda row: _duration(int(row["used_s"])),
        whole,
        letter="M",
        sort=_number("used_s"),
    ),
    "tres-alloc": Field("TRES_ALLOC", "tres", lambda row: tres_text(row["tres"])),
    "wait4switch": Field("WAIT4SWITCH", "max_switches switches_wait_s", _switches_wait),
}


class JobFields:
    """All printable fields of a job by name, for one listing.

    To the fields above it adds those that depend on the caller's settings or on the present time.
    """

    def __init__(self, env: Mapping[str, str], *, now: float, stamps: Stamps, convert: bool = True) -> None:
        self._now = now
        self._stamps = stamps
        self._convert = convert
        self._bitstr_len = length_of(env)
        fields = {**FIXED, **COLUMNS, **COMPUTED, **self._times(), **self._of_listing()}
        old = {old: fields[name]._replace(letter="") for old, name in OLD_NAMES.items()}
        self.by_name: dict[str, Field] = {**fields, **old}

    def _times(self) -> dict[str, Field]:
        stamp = self._stamps.text

        def time_of(title: str, column: str, letter: str = "", sort: Key | None = None) -> Field:
            return Field(title, column, lambda row: stamp(row[column]), cut, letter, sort)

        return {
            "accruetime": time_of("ACCRUE_TIME", "eligible"),
            "deadline": time_of("DEADLINE", "deadline"),
            "eligibletime": time_of("ELIGIBLE_TIME", "eligible"),
            "endtime": time_of("END_TIME", "ends", "e", _number("ends")),
            "preempttime": time_of("PREEMPT_TIME", "leaves"),
            "starttime": Field(
                "START_TIME",
                STARTS,
                lambda row: stamp(start_of(row)),
                letter="S",
                sort=Key(STARTS, lambda row: start_of(row) or NEVER),
            ),
            "submittime": time_of("SUBMIT_TIME", "submit", "V", _number("submit")),
        }

    def _of_listing(self) -> dict[str, Field]:
        ids = "array_job_id tasks_text tasks_folded het_job_id label"
        return {
            "arraytaskid": Field("ARRAY_TASK_ID", "tasks_text", self._task, letter="K"),
            "jobarrayid": Field(
                "JOBID", ids, self.job_id, letter="i", sort=Key("array_job_id array_task_id", by_id)
            ),
            "minmemory": Field(
                "MIN_MEMORY", MEMORY, self._memory, letter="m", sort=Key(MEMORY, memory_bytes)
            ),
            "pendingtime": Field("PENDING_TIME", "start submit", self._pending),
        }

    def _pending(self, row: Row) -> str:
        return str(max(0, int(row["start"] or self._now) - int(row["submit"])))

    def job_id(self, row: Row) -> str:
        """Return the job ID in one of the forms 12, 12_3, 12_[4-9%2] or 12+1."""
        if row["het_job_id"]:
            return str(row["label"])
        tasks = row["tasks_text"]
        if not tasks:
            return str(row["array_job_id"])
        if not row["tasks_folded"]:
            return f"{row['array_job_id']}_{tasks}"
        text = f"{row['array_job_id']}_[{self._cut(tasks)}]"
        return text if self._bitstr_len is not None else text[:ID_LENGTH]

    def _task(self, row: Row) -> str:
        return self._cut(row["tasks_text"]) or NOT_ASKED

    def _cut(self, tasks: str) -> str:
        """Shorten a list of task IDs to the length that SLURM_BITSTR_LEN allows."""
        return task_list(tasks, DEFAULT_LENGTH if self._bitstr_len is None else self._bitstr_len)

    def _memory(self, row: Row) -> str:
        size = memory_bytes(row)
        mib = size // MIB
        return "0" if not size else exact(mib, "M") if self._convert else f"{mib}M"
