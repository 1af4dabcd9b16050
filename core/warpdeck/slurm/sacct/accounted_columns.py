"""sacct's columns: their widths, and their texts for a job or a step. Pure functions.

Names and widths are those of sacct 22.05. Each column is one entry of a table: the columns of the controller's row that
it needs, and its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.slurm.fields.field import Field, Row, columns, constant, needs_of, shaped, table
from warpdeck.slurm.fields.job_fields import ENDED_BY_ORDER, JOB, derived_exit
from warpdeck.slurm.fields.job_states import shown_exit
from warpdeck.slurm.fields.step_fields import STEP, is_sruns, recorded_step_state, step_name, step_row
from warpdeck.slurm.fields.text_forms import plain_tres
from warpdeck.slurm.format.task_lists import shown_tasks
from warpdeck.slurm.format.units import UNKNOWN, clock, exact, moment, rounded, tres_text

from .step_usage import USAGE, StepUsage, cpu_times, energy_j

FORM = """
Account:10 AdminComment:15 AllocCPUS:10 AllocNodes:10 AllocTRES:10 AssocID:7 AveCPU:10 AveCPUFreq:10 AveDiskRead:14
AveDiskWrite:14 AvePages:10 AveRSS:10 AveVMSize:10 BlockID:16 Cluster:10 Comment:14 Constraints:19 ConsumedEnergy:14
ConsumedEnergyRaw:17 Container:19 CPUTime:10 CPUTimeRAW:10 DBIndex:-10 DerivedExitCode:15 Elapsed:10 ElapsedRaw:10 Eligible:19
End:19 ExitCode:8 Flags:19 GID:6 Group:9 JobID:-12 JobIDRaw:-12 JobName:10 Layout:9 MaxDiskRead:12 MaxDiskReadNode:15
MaxDiskReadTask:15 MaxDiskWrite:12 MaxDiskWriteNode:16 MaxDiskWriteTask:16 MaxPages:8 MaxPagesNode:12 MaxPagesTask:14
MaxRSS:10 MaxRSSNode:10 MaxRSSTask:10 MaxVMSize:10 MaxVMSizeNode:14 MaxVMSizeTask:14 McsLabel:12 MinCPU:10 MinCPUNode:10
MinCPUTask:10 NCPUS:10 NNodes:8 NodeList:15 NTasks:8 Partition:10 Priority:10 QOS:10 QOSRAW:6 Reason:22 ReqCPUFreq:10
ReqCPUFreqGov:13 ReqCPUFreqMax:13 ReqCPUFreqMin:13 ReqCPUS:8 ReqMem:10 ReqNodes:8 ReqTRES:10 Reservation:20 ReservationId:8
Reserved:10 ResvCPU:10 ResvCPURAW:10 Start:19 State:10 Submit:19 SubmitLine:20 Suspended:10 SystemComment:15 SystemCPU:10
Timelimit:10 TimelimitRaw:10 TotalCPU:10 TRESUsageInAve:14 TRESUsageInMax:14 TRESUsageInMaxNode:18 TRESUsageInMaxTask:18
TRESUsageInMin:14 TRESUsageInMinNode:18 TRESUsageInMinTask:18 TRESUsageInTot:14 TRESUsageOutAve:15 TRESUsageOutMax:15
TRESUsageOutMaxNode:19 TRESUsageOutMaxTask:19 TRESUsageOutMin:15 TRESUsageOutMinNode:19 TRESUsageOutMinTask:19
TRESUsageOutTot:15 UID:6 User:9 UserCPU:10 WCKey:10 WCKeyID:10 WorkDir:20
"""
WIDTHS = {name: int(width) for name, _, width in (word.partition(":") for word in FORM.split())}
"""Field -> width. A negative width aligns the text to the left."""
NEWER_FORM = """
Exclusive:14 Extra:14 FailedNode:8 Licenses:10 OriginalSLUID:14 OverSubscribe:14 Planned:10 PlannedCPU:10 PlannedCPURAW:13
QOSREQ:10 ReqReservation:20 Restarts:8 SegmentSize:11 SLUID:14 StdErr:20 StdIn:20 StdOut:20
"""
NEWER_WIDTHS = {name: int(width) for name, _, width in (word.partition(":") for word in NEWER_FORM.split())}
"""Fields that came after Slurm 22.05. --helpformat and the field "all" do not contain them."""
_NUMBERS = """
AllocCPUS AllocNodes AssocID ConsumedEnergyRaw CPUTime CPUTimeRAW DBIndex Elapsed ElapsedRaw GID NCPUS NNodes NTasks
Planned PlannedCPU PlannedCPURAW Priority QOSRAW ReqCPUS ReqNodes ReservationId Reserved ResvCPU ResvCPURAW Suspended
UID WCKeyID
"""
NUMBERS = frozenset(_NUMBERS.split())
"""Fields that Slurm prints in full even if their column is too narrow.

Source: print_fields_uint and print_fields_time_from_secs.
"""
MOMENTS = frozenset(("Eligible", "End", "Start", "Submit"))
STOPPED = 0x7F
"""Signal number of a wait(2) status of a process that was stopped and has not ended."""
FLAGS = "SchedMain,StartRecieved"
"""Flags of a job that has started. The misspelling is that of all Slurm releases."""


class AccountedWindow:
    """Time window to which --truncate limits the start and end of jobs.

    Without --truncate it is unlimited.
    """

    def __init__(self, now: float, since: float = 0.0, until: float | None = None) -> None:
        self.now = now
        self._since = since
        self._until = until

    def start(self, at: float | None) -> float | None:
        """Return the start, but no earlier than the window."""
        return at if at is None else max(at, self._since)

    def end(self, at: float | None) -> float | None:
        """Return the end, but no later than the window."""
        if self._until is None or (at is not None and at <= self._until):
            return at
        return self._until


def job_line(job: Row, window: AccountedWindow, *, unit: str = "") -> Row:
    """Return the row of a job's line. `unit` is the letter of --units, or "raw" for --noconvert."""
    return {**job, "job_id": job["id"], "window": window, "unit": unit}


def step_line(step: Row, job: Row, window: AccountedWindow, *, unit: str = "") -> Row:
    """Return the row of a step's line."""
    row = step_row(step, job)
    return {**row, "window": window, "unit": unit, "usage": StepUsage(row, unit)}


def start_of(row: Row) -> float | None:
    found: float | None = row["window"].start(row["start"])
    return found


def end_of(row: Row) -> float | None:
    found: float | None = row["window"].end(row["end"])
    return found


def suspended_s(row: Row) -> float:
    """Return for how long the job was suspended until now."""
    since = row["suspended_at"]
    return float(row["suspended_s"]) + (0.0 if since is None else max(0.0, row["window"].now - since))


def elapsed_s(row: Row) -> int:
    """Return the run time in whole seconds, without suspended time."""
    start, end = start_of(row), end_of(row)
    return 0 if start is None else int(max(0.0, (end or row["window"].now) - start - suspended_s(row)))


def _waited_s(row: Row) -> float:
    """Return for how long the job waited although it was eligible."""
    start = start_of(row)
    if row["start"] is None and row["end"] is not None:
        return 0.0
    return max(0.0, (start or row["window"].now) - (row["eligible"] or start or row["window"].now))


def recorded_derived_exit(job: Row) -> str:
    """Return the derived exit code as code:signal: the one that a user has set, or the one of the steps."""
    status = job["derived_exit"]
    if status is None:
        return derived_exit(job)
    signal = status & 0x7F
    if signal:
        return f"0:{signal if signal < STOPPED else 0}"
    return f"{status >> 8 & 0xFF}:0"


def state_text(row: Row) -> str:
    """Return the state for the State column, such as CANCELLED by 1000.

    The user is added only if somebody ended the job. A run that was ended by a requeue is REQUEUED and not
    cancelled.
    """
    if row["exit_cause"] == "requeued":
        return "REQUEUED"
    if row["state"] == "CANCELLED" and row["ended_by_uid"] is not None:
        return f"CANCELLED by {row['ended_by_uid']}"
    return recorded_state(row["state"])


def recorded_state(state: str) -> str:
    """Return the state that Slurm's accounting records.

    It shows jobs that are starting or completing as running.
    """
    return "RUNNING" if state in ("CONFIGURING", "COMPLETING") else str(state)


def _step_state(row: Row) -> str:
    if row["job_state"] == "SUSPENDED" and not row["end"]:
        return "SUSPENDED"
    return recorded_state(recorded_step_state(row))


def label(job: Row) -> str:
    """Return the job ID in one of the forms 12, 12_3 or 12_[4-9%2]."""
    if job["tasks_folded"]:
        return f"{job['array_job_id']}_[{shown_tasks(job['tasks_text'])}]"
    return str(job["label"])


def exit_code(job: Row) -> str:
    """Return the exit code of a job as code:signal.

    It is 0:0 if an order such as scancel ended the job. The record of such a job is written when the order is
    given, before its processes exit.
    """
    return "0:0" if job["exit_cause"] in ENDED_BY_ORDER else shown_exit(job)


def waiting_reason(job: Row) -> str:
    """Return the code of the reason why a job is pending.

    For a job that has started, the reason is None however it ended.
    """
    return "None" if job["start"] is not None else str(job["reason"]).partition(",")[0]


def _cpu_time(seconds: float) -> str:
    """Format CPU time as 00:00.031, 01:02:03 or 1-00:00:00.

    Fractions of a second are shown only below an hour.
    """
    if seconds >= 3600 or seconds == int(seconds):
        return clock(seconds)
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes):02d}:{rest:06.3f}"


def _memory(row: Row) -> str:
    mib, unit = row["tres_asked"].get("mem", 0), row["unit"]
    if unit == "raw":
        return f"{mib}M"
    return rounded(mib, "M", unit=unit) if unit else exact(mib, "M")


def _tres(row: Row, column: str) -> str:
    unit = "M" if row["unit"] == "raw" else row["unit"]
    return tres_text(plain_tres(row[column]), by_name=True, unit=unit)


def _of_cpus(pick: Callable[[float, float], float]) -> Field:
    """Return the field of a part of the CPU time: a function of all of it and of the kernel's part."""
    return Field("used", lambda row: _cpu_time(pick(*cpu_times(row["used"]))))


def _energy(row: Row) -> int | str:
    return "" if (energy := energy_j(row["used"])) is None else energy


def _step_energy(row: Row) -> int | str:
    return 0 if (energy := _energy(row)) == "" and end_of(row) is not None else energy


def _start(row: Row) -> str:
    return moment(start_of(row), none=UNKNOWN if end_of(row) is None else "None")


def _used(text: Callable[[StepUsage], str]) -> Field:
    return Field("", lambda row: text(row["usage"]))


_ELAPSED, _WAITED = "start end suspended_at suspended_s", "start end eligible"
_EVERY = f"""
Account=account AllocCPUS=cpus AllocNodes=alloc_nodes AllocTRES=alloc_tres AssocID==0 Cluster=={CLUSTER_NAME}
ConsumedEnergy=energy|rounded ConsumedEnergyRaw=energy CPUTime=cpus_s|clock CPUTimeRAW=cpus_s DBIndex=job_id
Elapsed=elapsed_s|clock ElapsedRaw=elapsed_s Eligible=eligible|moment End=end|moment ExitCode=exit_code JobID=job
JobName=name NCPUS=cpus NNodes=nodes NodeList=nodes_told ReqCPUS=cpus ReqNodes=nodes_asked Start=start State=state
Submit=submit|moment Suspended=suspended_s|clock SystemCPU=system_cpu TotalCPU=total_cpu UserCPU=user_cpu
ReqCPUFreq=frequency ReqCPUFreqGov=frequency ReqCPUFreqMax=frequency ReqCPUFreqMin=frequency
"""
"""Columns of jobs and steps, each with its field and form as in `field.table`."""
_JOBS = """
AdminComment=admin_comment Comment=comment Constraints=features Container=container DerivedExitCode=derived_exit Flags=flags
GID=gid Group=group JobIDRaw=id Partition=partition Priority=priority QOS=qos QOSRAW==1 Reason=reason ReqMem=memory
ReqTRES=asked_tres Reservation=reservation Reserved=waited_s|clock ResvCPU=waited_cpus_s|clock ResvCPURAW=whole_waited
Exclusive=exclusive Licenses=licenses OverSubscribe=shares Planned=waited_s|clock PlannedCPU=waited_cpus_s|clock
PlannedCPURAW=whole_waited QOSREQ=qos ReqReservation=reservation Restarts=restarts StdErr=stderr|some StdIn==/dev/null
StdOut=stdout|some SubmitLine=submit_line SystemComment=system_comment Timelimit=limit_s|clock
TimelimitRaw=limit UID=uid User=user WCKeyID==0 WorkDir=work_dir
"""
_STEPS = "JobIDRaw=raw_id Layout=layout NTasks=tasks"
_FIELDS: dict[str, Field] = {
    **columns("account cpus name submit_line system_comment"),
    "alloc_nodes": Field("nodes start", lambda row: 0 if row["start"] is None else row["nodes"]),
    "alloc_tres": Field("tres start", lambda row: _tres(row, "tres") if start_of(row) else ""),
    "cpus_s": Field(f"{_ELAPSED} cpus", lambda row: elapsed_s(row) * row["cpus"]),
    "elapsed_s": Field(_ELAPSED, elapsed_s),
    "end": Field("end", end_of),
    "job_id": Field("", lambda row: row["job_id"]),
    "nodes": columns("nodes")["nodes"],
    "nodes_told": Field("node_list", lambda row: row["node_list"] or "None assigned"),
    "start": Field("start end", _start),
    "suspended_s": Field("suspended_at suspended_s", suspended_s),
    "system_cpu": _of_cpus(lambda total_s, system_s: system_s),
    "total_cpu": _of_cpus(lambda total_s, system_s: total_s),
    "user_cpu": _of_cpus(lambda total_s, system_s: total_s - system_s),
}
"""Fields that are computed in the same way for jobs and steps."""
JOB_FIELDS: dict[str, Field] = {
    **JOB,
    **_FIELDS,
    "asked_tres": Field("tres_asked", lambda row: _tres(row, "tres_asked")),
    "comment": Field("recorded_comment", lambda row: row["recorded_comment"]),
    "derived_exit": Field("derived_exit exit_cause", recorded_derived_exit),
    "eligible": JOB["accrue_time"],
    "energy": Field("used", _energy),
    "exit_code": Field("exit_cause exit_code state", exit_code),
    "flags": Field("start", lambda row: FLAGS if start_of(row) else ""),
    "frequency": constant(UNKNOWN),
    "job": Field("array_job_id label tasks_folded tasks_text", label),
    "limit": shaped(JOB["limit_s"], lambda limit_s: "UNLIMITED" if limit_s is None else limit_s // 60),
    "memory": Field("tres_asked", _memory),
    "nodes_asked": Field("nodes_min", lambda row: row["nodes_min"]),
    "priority": shaped(JOB["priority_told"], lambda priority: "" if priority is None else priority),
    "reason": Field("reason start", waiting_reason),
    "shares": Field("oversubscribe", lambda row: "YES" if row["oversubscribe"] == "YES" else "NO"),
    "state": Field("exit_cause state ended_by_uid", state_text),
    "waited_cpus_s": Field(f"{_WAITED} cpus", lambda row: _waited_s(row) * row["cpus"]),
    "waited_s": Field(_WAITED, _waited_s),
    "whole_waited": Field(f"{_WAITED} cpus", lambda row: int(_waited_s(row)) * row["cpus"]),
}
STEP_FIELDS: dict[str, Field] = {
    **STEP,
    **_FIELDS,
    "eligible": STEP["start"],
    "energy": Field("", _step_energy),
    "frequency": Field("", lambda row: UNKNOWN if is_sruns(row) else "0"),
    "job": Field("array_job_id label tasks_folded tasks_text", lambda row: f"{label(row)}.{step_name(row)}"),
    "layout": shaped(STEP["layout"], lambda layout: layout or UNKNOWN),
    "nodes_asked": STEP["nodes"],
    "raw_id": Field("", lambda row: f"{row['job_id']}.{step_name(row)}"),
    "state": Field("", _step_state),
    "submit": STEP["start"],
}
JOB_COLUMNS = table(_EVERY + _JOBS, JOB_FIELDS)
"""Column -> its field of a job. Other columns are empty."""
STEP_COLUMNS = {
    **table(_EVERY + _STEPS, STEP_FIELDS),
    **{name: _used(text) for name, text in USAGE.items()},
}
"""Column -> its field of a step. Other columns are empty."""
_NONE = constant("")


def needs_of_columns(names: Iterable[str]) -> list[str]:
    """Return the columns of the controller's row from which sacct's columns are made."""
    names = list(names)
    return needs_of(table[name] for table in (JOB_COLUMNS, STEP_COLUMNS) for name in names if name in table)


def texts(row: Row, names: Iterable[str]) -> list[str]:
    """Return the columns of a line as text. `row` is that of `job_line` or `step_line`."""
    table = STEP_COLUMNS if "usage" in row else JOB_COLUMNS
    return [str(table.get(name, _NONE).value(row)) for name in names]
