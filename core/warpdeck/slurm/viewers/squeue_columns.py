"""Columns of squeue for jobs: every letter of -o and every name of -O, formatted as Slurm formats them.

Properties that our jobs do not have are printed as Slurm prints options that were not requested: (null), N/A, 0 or *.
"""

from __future__ import annotations

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.slurm.fields.field import Field, Row, shaped
from warpdeck.slurm.fields.job_fields import JOB
from warpdeck.slurm.fields.job_states import CODES
from warpdeck.slurm.format.format_strings import SortKey, TextField, cut, whole
from warpdeck.slurm.format.task_lists import FOLDED_WIDTH, given_length, shown_tasks

from .column_table import text_columns
from .job_order import NEVER, by_id

COLUMNS = f"""
account/a ACCOUNT account|(null)
accruetime ACCRUE_TIME accrue_time|moment-na
admin_comment ADMIN_COMMENT admin_comment|(null)
allocnodes ALLOC_NODES submit_host|(null)
allocsid ALLOC_SID =0
arrayjobid/F ARRAY_JOB_ID array_job_id
arraytaskid/K ARRAY_TASK_ID array_tasks|N/A
associd ASSOC_ID =0
batchflag BATCH_FLAG batch|flag
batchhost/B EXEC_HOST batch_host|n/a
boardspernode BOARDS_PER_NODE =0
burstbuffer BURST_BUFFER =(null)
burstbufferstate BURST_BUFFER_STATE =(null)
cluster CLUSTER ={CLUSTER_NAME}
clusterfeature CLUSTER_FEATURES =(null)
command/o COMMAND command|(null)
comment/k COMMENT comment|(null)
container CONTAINER container|(null)
containerid CONTAINERID =(null)
containertype CONTAINERTYPE =(null)
contiguous/O CONTIGUOUS contiguous|flag
cores/I CORES_PER_SOCKET =*
corespec/X CORE_SPEC =N/A
cpus-per-task CPUS_PER_TASK cpus_per_task
cpus-per-tres CPUS_PER_TRES cpus_per_tres|N/A
cronjob CRON_JOB =No
deadline DEADLINE deadline|moment-na
delayboot DELAY_BOOT =0:00
dependency/E DEPENDENCY dependency|(null)
derivedec DERIVED_EC =0
eligibletime ELIGIBLE_TIME eligible_time|moment-na
endtime/e END_TIME ends|moment-na number
excnodes/x EXC_NODES exc_nodes
exclusive EXCLUSIVE exclusive
exit_code EXIT_CODE wait_status|0
feature/f FEATURES features|(null)
gres TRES_PER_NODE tres_per_node|N/A
groupid/G GROUP gid|0
groupname/g GROUP group
hetjobid HET_JOB_ID het_job_id|N/A
hetjobidset HET_JOB_ID_SET het_job_id_set|N/A
hetjoboffset HET_JOB_OFFSET het_offset|known
jobid/A JOBID id
lastschedeval LAST_SCHED_EVAL =N/A
licenses/W LICENSES licenses|(null)
licensesalloc LICENSES_ALLOC licenses_alloc|(null)
maxcpus MAX_CPUS cpus
maxnodes MAX_NODES max_nodes|0
mcslabel MCSLABEL =(null)
mem-per-tres MEM_PER_TRES mem_per_tres|N/A
mincpus/c MIN_CPUS min_cpus number
minmemory/m MIN_MEMORY memory|mib number
mintime TIME_MIN time_min_s|duration-0
mintmpdisk/d MIN_TMP_DISK tmp_disk|mib
name/j NAME name
network NETWORK =(null)
nice/y NICE nice|0
nodelist/N NODELIST node_list whole
ntperboard NTASKS_PER_BOARD =0
ntpercore NTASKS_PER_CORE =N/A
ntpernode NTASKS_PER_NODE tasks_per_node|0
ntpersocket NTASKS_PER_SOCKET =N/A
numcpus/C CPUS cpus number
numnodes/D NODES nodes_told number
numtasks TASKS tasks
origin ORIGIN =NA
originraw ORIGIN_RAW =NA
oversubscribe/h OVER_SUBSCRIBE oversubscribe
partition/P PARTITION partition
preempttime PREEMPT_TIME leaves|moment-na
prefer PREFER prefer|(null)
priority/p PRIORITY priority_share
prioritylong/Q PRIORITY priority|0 number
profile PROFILE =NotSet
qos/q QOS qos|(null)
reason/r REASON reason|None
reboot REBOOT =0
reqnodes/n REQ_NODES req_nodes whole
reqswitch REQ_SWITCH max_switches|0
requeue REQUEUE requeue|flag
reservation/v RESERVATION reservation|(null)
resizetime RESIZE_TIME =N/A whole
restartcnt RESTART_COUNT restarts|0
schednodes/Y SCHEDNODES sched_nodes|(null) whole
segmentsize SEGMENT_SIZE =N/A
sct/z S:C:T =*:*:*
selectjobinfo/s - =
siblingsactive ACTIVE_SIBLINGS =NA
siblingsactiveraw ACTIVE_SIBLINGS_RAW =NA
siblingsviable VIABLE_SIBLINGS =NA
siblingsviableraw VIALBLE_SIBLINGS_RAW =NA
sluid SLUID =(null)
sockets/H SOCKETS_PER_NODE =*
sperboard SOCKETS_PER_BOARD =0
starttime/S START_TIME start_time|moment-na last
state/T STATE state
statecompact/t ST state_code
stderr STDERR stderr
stdin STDIN =/dev/null
stdout STDOUT stdout
submittime/V SUBMIT_TIME submit|moment-na number
system_comment SYSTEM_COMMENT =(null)
threads/J THREADS_PER_CORE =*
timeleft/L TIME_LEFT left_s|duration whole
timelimit/l TIME_LIMIT limit_s|duration whole last
timeused/M TIME used_s|duration whole number
tres-alloc TRES_ALLOC tres|tres-text
tres-bind TRES_BIND =N/A
tres-freq TRES_FREQ =N/A
tres-per-job TRES_PER_JOB tres_per_job|N/A
tres-per-node/b TRES_PER_NODE tres_per_node|N/A
tres-per-socket TRES_PER_SOCKET =N/A
tres-per-task TRES_PER_TASK tres_per_task|N/A
userid/U UID uid|0 number
username/u USER user
wait4switch WAIT4SWITCH switches_wait_s|duration
wckey/w WCKEY =(null)
workdir/Z WORK_DIR work_dir|(null)
"""
"""The columns in the form of `text_columns`."""
OLD_NAMES = {
    "cpuspertask": "cpus-per-task", "packjobid": "hetjobid", "packjobidset": "hetjobidset",
    "packjoboffset": "hetjoboffset", "shared": "oversubscribe",
}  # fmt: skip
"""Column names of earlier Slurm releases, which scripts still use."""
OF_REASON = frozenset({"PENDING", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "FAILED"})
"""Job states whose reason is printed instead of the node list."""
PRIORITY_SCALE = 2**32 - 1
OWN: dict[str, Field] = {
    "licenses_alloc": Field("licenses shares", lambda row: row["licenses"] if row["shares"] else None),
    "array_tasks": shaped(JOB["tasks_text"], shown_tasks),
    "priority_share": shaped(JOB["priority"], lambda number: f"{number / PRIORITY_SCALE:16.14f}"),
    "state_code": shaped(JOB["state"], CODES.__getitem__),
}
"""Fields that only squeue shows."""
SORT_KEYS = {
    "nodelist": SortKey("batch_host", lambda row: (not row["batch_host"], row["batch_host"])),
    "priority": SortKey("priority_told", JOB["priority"].value),
    "statecompact": SortKey("state", lambda row: row["state"]),
    "timeleft": SortKey("limit_s used_s", lambda row: (row["limit_s"] or NEVER) - row["used_s"]),
}
"""Sort keys that are not the value of the column's field."""


def _reason_list(row: Row) -> str:
    """Return the reason in parentheses, or the nodes.

    A running job shows its nodes even if it is already held for its next run.
    """
    return f"({row['reason']})" if row["state"] in OF_REASON else str(row["node_list"])


def _fit_reason(text: str, width: int, right: bool) -> str:
    """Fit NODELIST(REASON) into its column. Reasons are cut; node lists are not."""
    return cut(text, width, right) if text.startswith("(") else whole(text, width, right)


def job_id(row: Row) -> str:
    """Return the job ID in one of the forms 12, 12_3, 12_[4-9%2] or 12+1."""
    if row["het_job_id"]:
        return str(row["label"])
    tasks = row["tasks_text"]
    if not tasks:
        return str(row["array_job_id"])
    if not row["tasks_folded"]:
        return f"{row['array_job_id']}_{tasks}"
    text = f"{row['array_job_id']}_[{shown_tasks(tasks)}]"
    return text[:FOLDED_WIDTH] if given_length() is None else text


SEVERAL = {
    "jobarrayid": TextField(
        "JOBID",
        "array_job_id tasks_text tasks_folded het_job_id label",
        job_id,
        letter="i",
        sort=SortKey("array_job_id array_task_id", by_id),
    ),
    "reasonlist": TextField(
        "NODELIST(REASON)", "state reason node_list", _reason_list, _fit_reason, letter="R"
    ),
}
"""Columns that print one of several fields."""


def job_columns(*, now: float, convert: bool = True) -> dict[str, TextField]:
    """Return all columns of a job by name. Without `convert`, memory is printed in MiB."""
    found = {**text_columns(COLUMNS, {**JOB, **OWN}), **SEVERAL}
    for name, key in SORT_KEYS.items():
        found[name] = found[name]._replace(sort=key)
    found["pendingtime"] = TextField(
        "PENDING_TIME", "start submit", lambda row: str(max(0, int(row["start"] or now) - int(row["submit"])))
    )
    if not convert:
        memory = JOB["memory"].value
        found["minmemory"] = found["minmemory"]._replace(
            text=lambda row: f"{mib}M" if (mib := memory(row)) else "0"
        )
    return found | {old: found[name]._replace(letter="") for old, name in OLD_NAMES.items()}
