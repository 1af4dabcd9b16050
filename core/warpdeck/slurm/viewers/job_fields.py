"""Job columns of squeue: every letter of -o and every name of -O, formatted as Slurm formats them.

Properties that our jobs do not have are printed as Slurm prints options that were not requested: (null), N/A,
0 or *.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of
from warpdeck.notation.values.durations import format_duration
from warpdeck.slurm.format.format_strings import NULL, Field, Row, cut, whole
from warpdeck.slurm.format.job_states import CODES, ENDED, STATE_FIELDS, told_exit, told_state
from warpdeck.slurm.format.task_lists import DEFAULT_LENGTH, length_of, task_list
from warpdeck.slurm.format.timestamps import Stamps
from warpdeck.slurm.format.units import MIB, exact, tres_text

LETTERS = {
    "a": "account", "b": "tres-per-node", "c": "mincpus", "d": "mintmpdisk", "e": "endtime", "f": "feature",
    "g": "groupname", "h": "oversubscribe", "i": "jobarrayid", "j": "name", "k": "comment", "l": "timelimit",
    "m": "minmemory", "n": "reqnodes", "o": "command", "p": "priority", "q": "qos", "r": "reason",
    "s": "selectjobinfo", "t": "statecompact", "u": "username", "v": "reservation", "w": "wckey", "x": "excnodes",
    "y": "nice", "z": "sct", "A": "jobid", "B": "batchhost", "C": "numcpus", "D": "numnodes", "E": "dependency",
    "F": "arrayjobid", "G": "groupid", "H": "sockets", "I": "cores", "J": "threads", "K": "arraytaskid",
    "L": "timeleft", "M": "timeused", "N": "nodelist", "O": "contiguous", "P": "partition", "Q": "prioritylong",
    "R": "reasonlist", "S": "starttime", "T": "state", "U": "userid", "V": "submittime", "W": "licenses",
    "X": "corespec", "Y": "schednodes", "Z": "workdir",
}  # fmt: skip
NOT_ASKED = "N/A"
FIXED = {
    "allocsid": ("ALLOC_SID", "0"), "associd": ("ASSOC_ID", "0"),
    "boardspernode": ("BOARDS_PER_NODE", "0"), "burstbuffer": ("BURST_BUFFER", NULL),
    "burstbufferstate": ("BURST_BUFFER_STATE", NULL), "cluster": ("CLUSTER", CLUSTER_NAME),
    "clusterfeature": ("CLUSTER_FEATURES", NULL),
    "cores": ("CORES_PER_SOCKET", "*"), "corespec": ("CORE_SPEC", NOT_ASKED), "delayboot": ("DELAY_BOOT", "0:00"),
    "mcslabel": ("MCSLABEL", NULL),
    "network": ("NETWORK", NULL), "ntperboard": ("NTASKS_PER_BOARD", "0"),
    "ntpercore": ("NTASKS_PER_CORE", NOT_ASKED), "ntpersocket": ("NTASKS_PER_SOCKET", NOT_ASKED),
    "origin": ("ORIGIN", "NA"), "originraw": ("ORIGIN_RAW", "NA"),
    "profile": ("PROFILE", "NotSet"), "reboot": ("REBOOT", "0"), "resizetime": ("RESIZE_TIME", NOT_ASKED),
    "sct": ("S:C:T", "*:*:*"), "selectjobinfo": ("", ""), "siblingsactive": ("ACTIVE_SIBLINGS", "NA"),
    "siblingsactiveraw": ("ACTIVE_SIBLINGS_RAW", "NA"), "siblingsviable": ("VIABLE_SIBLINGS", "NA"),
    "siblingsviableraw": ("VIALBLE_SIBLINGS_RAW", "NA"), "sockets": ("SOCKETS_PER_NODE", "*"),
    "sperboard": ("SOCKETS_PER_BOARD", "0"), "stdin": ("STDIN", "/dev/null"),
    "system_comment": ("SYSTEM_COMMENT", NULL), "threads": ("THREADS_PER_CORE", "*"),
    "tres-bind": ("TRES_BIND", NOT_ASKED), "tres-freq": ("TRES_FREQ", NOT_ASKED),
    "tres-per-socket": ("TRES_PER_SOCKET", NOT_ASKED), "wckey": ("WCKEY", NULL),
}  # fmt: skip
"""Fields with the same value for all our jobs: title and text, in Slurm's spelling."""
PLAIN = {
    "account": ("ACCOUNT", "account", NULL), "admin_comment": ("ADMIN_COMMENT", "admin_comment", NULL),
    "allocnodes": ("ALLOC_NODES", "submit_host", NULL),
    "arrayjobid": ("ARRAY_JOB_ID", "array_job_id", ""), "batchhost": ("EXEC_HOST", "batch_host", "n/a"),
    "command": ("COMMAND", "command", NULL), "comment": ("COMMENT", "comment", NULL),
    "container": ("CONTAINER", "container", NULL), "cpus-per-task": ("CPUS_PER_TASK", "cpus_per_task", ""),
    "gres": ("TRES_PER_NODE", "tres_per_node", NOT_ASKED),
    "dependency": ("DEPENDENCY", "dependency", NULL), "excnodes": ("EXC_NODES", "exc_nodes", ""),
    "feature": ("FEATURES", "features", NULL), "jobid": ("JOBID", "id", ""), "licenses": ("LICENSES", "licenses", NULL),
    "maxcpus": ("MAX_CPUS", "cpus", ""), "name": ("NAME", "name", ""), "nodelist": ("NODELIST", "node_list", ""),
    "ntpernode": ("NTASKS_PER_NODE", "tasks_per_node", "0"), "numcpus": ("CPUS", "cpus", ""),
    "numnodes": ("NODES", "nodes_told", ""), "numtasks": ("TASKS", "tasks", ""), "nice": ("NICE", "nice", "0"),
    "partition": ("PARTITION", "partition", ""), "qos": ("QOS", "qos", NULL), "reason": ("REASON", "reason", "None"),
    "reqnodes": ("REQ_NODES", "req_nodes", ""), "reqswitch": ("REQ_SWITCH", "max_switches", "0"),
    "reservation": ("RESERVATION", "reservation", NULL), "restartcnt": ("RESTART_COUNT", "restarts", "0"),
    "schednodes": ("SCHEDNODES", "sched_nodes", NULL),
 "stderr": ("STDERR", "stderr", ""), "stdout": ("STDOUT", "stdout", ""),
    "tres-per-job": ("TRES_PER_JOB", "tres_per_job", NOT_ASKED),
    "tres-per-node": ("TRES_PER_NODE", "tres_per_node", NOT_ASKED),
    "tres-per-task": ("TRES_PER_TASK", "tres_per_task", NOT_ASKED), "userid": ("UID", "uid", "0"),
    "username": ("USER", "user", ""), "workdir": ("WORK_DIR", "work_dir", NULL),
}  # fmt: skip
"""Fields that print one column of the row unchanged: title, column, and the text for an empty value."""
OLD_NAMES = {
    "cpuspertask": "cpus-per-task", "packjobid": "hetjobid", "packjobidset": "hetjobidset",
    "packjoboffset": "hetjoboffset", "shared": "oversubscribe",
}  # fmt: skip
"""Field names of earlier Slurm releases, which scripts still use."""
WHOLE = frozenset({"nodelist", "reqnodes", "schednodes", "resizetime"})
"""Plain fields that are not cut at the width of their column."""
ID_LENGTH = 31
"""Printed characters of a folded array's job ID if SLURM_BITSTR_LEN is not set, as in Slurm."""
PRIORITY_SCALE = 2**32 - 1


class JobFields:
    """All printable fields of a job by name, for one listing."""

    def __init__(self, env: Mapping[str, str], *, now: float, stamps: Stamps, convert: bool = True) -> None:
        self._now = now
        self._stamps = stamps
        self._convert = convert
        self._bitstr_len = length_of(env)
        self.by_name: dict[str, Field] = {
            **{name: Field(title, "", _always(text), _fit(name)) for name, (title, text) in FIXED.items()},
            **{
                name: Field(title, key, _plain(key, empty), _fit(name))
                for name, (title, key, empty) in PLAIN.items()
            },
            **self._times(),
            **self._ids(),
            **self._amounts(),
        }
        self.by_name |= {old: self.by_name[name] for old, name in OLD_NAMES.items()}

    def _times(self) -> dict[str, Field]:
        stamp = self._stamps.text
        return {
            "accruetime": Field("ACCRUE_TIME", "eligible", lambda row: stamp(row["eligible"])),
            "deadline": Field("DEADLINE", "deadline", lambda row: stamp(row["deadline"])),
            "eligibletime": Field("ELIGIBLE_TIME", "eligible", lambda row: stamp(row["eligible"])),
            "endtime": Field("END_TIME", "ends", lambda row: stamp(row["ends"])),
            "lastschedeval": Field("LAST_SCHED_EVAL", "", _always(NOT_ASKED)),
            "mintime": Field("TIME_MIN", "time_min_s", lambda row: format_duration(row["time_min_s"] or 0)),
            "pendingtime": Field("PENDING_TIME", "start submit", self._pending),
            "preempttime": Field("PREEMPT_TIME", "leaves", lambda row: stamp(row["leaves"])),
            "starttime": Field("START_TIME", STARTS, lambda row: stamp(start_of(row))),
            "submittime": Field("SUBMIT_TIME", "submit", lambda row: stamp(row["submit"])),
            "timeleft": Field("TIME_LEFT", f"limit_s {USED}", self._left, whole),
            "timelimit": Field("TIME_LIMIT", "limit_s", lambda row: format_duration(row["limit_s"]), whole),
            "timeused": Field("TIME", USED, lambda row: _duration(int(row["used_s"])), whole),
            "wait4switch": Field("WAIT4SWITCH", "max_switches switches_wait_s", _switches_wait),
        }

    def _ids(self) -> dict[str, Field]:
        return {
            "arraytaskid": Field("ARRAY_TASK_ID", "tasks_text", self._task),
            "batchflag": Field("BATCH_FLAG", "batch", lambda row: "1" if row["batch"] else "0"),
            "derivedec": Field("DERIVED_EC", "", _always("0")),
            "exit_code": Field("EXIT_CODE", "exit_code state", lambda row: str(wait_status(told_exit(row)))),
            "groupid": Field("GROUP", "uid", lambda row: str(group_of(row["uid"])[1])),
            "groupname": Field("GROUP", "uid", lambda row: group_of(row["uid"])[0]),
            "hetjobid": Field("HET_JOB_ID", "het_job_id", lambda row: str(row["het_job_id"] or NOT_ASKED)),
            "hetjobidset": Field(
                "HET_JOB_ID_SET", "het_job_id_set", lambda row: row["het_job_id_set"] or NOT_ASKED
            ),
            "hetjoboffset": Field(
                "HET_JOB_OFFSET",
                "het_job_id het_job_offset",
                lambda row: str(row["het_job_offset"]) if row["het_job_id"] else NOT_ASKED,
            ),
            "jobarrayid": Field(
                "JOBID", "array_job_id tasks_text tasks_folded het_job_id label", self.job_id
            ),
            "state": Field("STATE", STATE_FIELDS, told_state),
            "statecompact": Field("ST", STATE_FIELDS, lambda row: CODES[told_state(row)]),
            "requeue": Field("REQUEUE", "requeue", lambda row: "1" if row["requeue"] else "0"),
            "reasonlist": Field("NODELIST(REASON)", "state reason node_list", _reason_list, _fit_reason),
        }

    def _amounts(self) -> dict[str, Field]:
        return {
            "cpus-per-tres": Field(
                "CPUS_PER_TRES", "cpus_per_gpu", lambda row: _per_gpu(row["cpus_per_gpu"])
            ),
            "contiguous": Field("CONTIGUOUS", "contiguous", lambda row: str(int(row["contiguous"]))),
            "prefer": Field("PREFER", "prefer", lambda row: row["prefer"] or NULL),
            "maxnodes": Field(
                "MAX_NODES",
                "nodes_told nodes_max",
                lambda row: str(max(row["nodes_told"], row["nodes_max"])),
            ),
            "mem-per-tres": Field("MEM_PER_TRES", "mem_per_gpu_bytes", _mem_per_gpu),
            "mincpus": Field("MIN_CPUS", "cpus_per_task tasks_per_node", _min_cpus),
            "mintmpdisk": Field("MIN_TMP_DISK", "tmp_disk_bytes", _min_tmp_disk),
            "minmemory": Field("MIN_MEMORY", "mem_per_node_bytes mem_per_cpu_bytes", self._memory),
            "oversubscribe": Field("OVER_SUBSCRIBE", "oversubscribe", lambda row: row["oversubscribe"]),
            "priority": Field(
                "PRIORITY",
                "priority_told",
                lambda row: f"{(row['priority_told'] or 0) / PRIORITY_SCALE:16.14f}",
            ),
            "prioritylong": Field("PRIORITY", "priority_told", lambda row: str(row["priority_told"] or 0)),
            "tres-alloc": Field("TRES_ALLOC", "tres", lambda row: tres_text(row["tres"])),
        }

    def _left(self, row: Row) -> str:
        if row["limit_s"] is None:
            return format_duration(None)
        return format_duration(int(row["limit_s"]) - int(row["used_s"]))

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
        size = row["mem_per_node_bytes"] or row["mem_per_cpu_bytes"] or 0
        mib = size // MIB
        return "0" if not size else exact(mib, "M") if self._convert else f"{mib}M"


_duration = lru_cache(maxsize=10_000)(format_duration)
"""The cache helps because most jobs of a long queue have the same run time, 0."""
USED = "used_s"
STARTS = "start expected_start ends state"


def start_of(row: Row) -> float | None:
    """Return the actual or expected start of the job.

    For a job that ended before it started, return its end, as Slurm does.
    """
    start: float | None = row["start"] or row["expected_start"]
    return row["ends"] if start is None and row["state"] in ENDED else start


def _always(text: str) -> Callable[[Row], str]:
    return lambda row: text


def _plain(key: str, empty: str) -> Callable[[Row], str]:
    return lambda row: str(row[key] or empty)


OF_REASON = frozenset({"PENDING", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "FAILED"})
"""Job states whose reason is printed instead of the node list."""


def _reason_list(row: Row) -> str:
    """Return the reason in parentheses, or the nodes.

    A running job shows its nodes even if it is already held for its next run.
    """
    return f"({row['reason']})" if row["state"] in OF_REASON else str(row["node_list"])


def _fit(name: str) -> Callable[[str, int, bool], str]:
    return whole if name in WHOLE else cut


def _fit_reason(text: str, width: int, right: bool) -> str:
    """Fit NODELIST(REASON) into its column. Reasons are cut; node lists are not."""
    return cut(text, width, right) if text.startswith("(") else whole(text, width, right)


def wait_status(text: str) -> int:
    """Convert an exit code (code:signal) to a wait(2) status: 256 times the code, plus the signal."""
    code, _, signal = text.partition(":")
    return int(code) * 256 + int(signal)


def _switches_wait(row: Row) -> str:
    return format_duration(row["switches_wait_s"] if row["max_switches"] else 0)


def _per_gpu(count: int | None) -> str:
    return f"gres:gpu:{count}" if count else NOT_ASKED


def _mem_per_gpu(row: Row) -> str:
    size = row["mem_per_gpu_bytes"]
    return _per_gpu(size // MIB if size else None)


def _min_tmp_disk(row: Row) -> str:
    return exact(row["tmp_disk_bytes"] // MIB, "M") if row["tmp_disk_bytes"] else "0"


def _min_cpus(row: Row) -> str:
    return str(row["cpus_per_task"] * max(1, row["tasks_per_node"]))
