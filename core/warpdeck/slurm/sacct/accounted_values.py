"""sacct's fields: their widths and their values for a job or step. Pure functions.

Names and widths are those of sacct 22.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of
from warpdeck.slurm.format.job_states import told_exit
from warpdeck.slurm.format.job_text import ENDED, derived_exit, plain_tres
from warpdeck.slurm.format.task_lists import told_tasks
from warpdeck.slurm.format.units import UNKNOWN, clock, exact, moment, rounded, tres_text

from .accounted_usage import cpu_times, energy_j, usage_fields

Record = dict[str, Any]
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
NUMBERS = frozenset(
    [
        "AllocCPUS",
        "AllocNodes",
        "AssocID",
        "ConsumedEnergyRaw",
        "CPUTime",
        "CPUTimeRAW",
        "DBIndex",
        "Elapsed",
        "ElapsedRaw",
        "GID",
        "NCPUS",
        "NNodes",
        "NTasks",
        "Planned",
        "PlannedCPU",
        "PlannedCPURAW",
        "Priority",
        "QOSRAW",
        "ReqCPUS",
        "ReqNodes",
        "ReservationId",
        "Reserved",
        "ResvCPU",
        "ResvCPURAW",
        "Suspended",
        "UID",
        "WCKeyID",
    ]
)
"""Fields that Slurm prints in full even if their column is too narrow.

Source: print_fields_uint and print_fields_time_from_secs.
"""
MOMENTS = frozenset(("Eligible", "End", "Start", "Submit"))
SIGNALLED = frozenset({"FAILED", "TIMEOUT", "PREEMPTED"})
"""States of our steps that were ended by a signal. sacct shows all of them as CANCELLED."""
STOPPED = 0x7F
"""Signal number of a wait(2) status of a process that was stopped and has not ended."""
COLUMNS = """
id label array_job_id array_task_id het_job_id het_job_offset name user uid account partition qos state
reason priority_told nodes node_list cpus limit_s submit start end exit_code exit_cause used work_dir
recorded_comment admin_comment system_comment derived_exit
submit_line eligible suspended_at suspended_s features reservation mem_per_cpu_bytes mem_per_node_bytes tres tres_asked
tasks_folded tasks_text container batch ended_by_uid nodes_min tasks cpus_per_task
"""
NEEDS = COLUMNS.split()
"""Columns of a Records response from which all fields are made."""


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


def recorded_derived_exit(job: Record) -> str:
    """Return the derived exit code as code:signal: the one that a user has set, or the one of the steps."""
    status = job["derived_exit"]
    if status is None:
        return derived_exit(job)
    signal = status & 0x7F
    if signal:
        return f"0:{signal if signal < STOPPED else 0}"
    return f"{status >> 8 & 0xFF}:0"


def job_values(job: Record, window: AccountedWindow, *, unit: str = "") -> dict[str, str]:
    """Return a job's fields as text by name. Missing fields are empty."""
    start, end = window.start(job["start"]), window.end(job["end"])
    waited_s = max(0.0, (start or window.now) - (job["eligible"] or start or window.now))
    if job["start"] is None and job["end"] is not None:
        waited_s = 0.0
    group, gid = group_of(job["uid"])
    limit_s = job["limit_s"]
    own = {
        "AdminComment": job["admin_comment"],
        "Comment": job["recorded_comment"],
        "Constraints": job["features"],
        "Container": job["container"],
        "DerivedExitCode": recorded_derived_exit(job),
        "ExitCode": exit_code(job),
        "Eligible": moment(job["eligible"]),
        "Flags": "SchedMain,StartRecieved" if start else "",  # The misspelling is that of all Slurm releases.
        "GID": str(gid),
        "Group": group,
        "JobID": label(job),
        "JobIDRaw": str(job["id"]),
        "JobName": job["name"],
        "Partition": job["partition"],
        "Priority": "" if job["priority_told"] is None else str(job["priority_told"]),
        "QOS": job["qos"],
        "QOSRAW": "1",
        "Reason": waiting_reason(job),
        "ReqMem": _memory(job["tres_asked"].get("mem", 0), unit),
        "ReqTRES": tres_text(plain_tres(job["tres_asked"]), by_name=True, unit="" if unit == "raw" else unit),
        "Reservation": job["reservation"],
        "Reserved": clock(waited_s),
        "ResvCPU": clock(waited_s * job["cpus"]),
        "ResvCPURAW": str(int(waited_s) * job["cpus"]),
        "Submit": moment(job["submit"]),
        "SubmitLine": job["submit_line"],
        "SystemComment": job["system_comment"],
        "Timelimit": clock(limit_s),
        "TimelimitRaw": "UNLIMITED" if limit_s is None else str(limit_s // 60),
        "UID": str(job["uid"]),
        "User": job["user"],
        "WCKeyID": "0",
        "WorkDir": job["work_dir"],
        **dict.fromkeys(("ReqCPUFreq", "ReqCPUFreqGov", "ReqCPUFreqMax", "ReqCPUFreqMin"), UNKNOWN),
    }
    tres = (
        tres_text(plain_tres(job["tres"]), by_name=True, unit="" if unit == "raw" else unit) if start else ""
    )
    facts = {
        **job,
        "start": start,
        "end": end,
        "suspended_s": _suspended_s(job, window),
        "asked_nodes": job["nodes_min"],
    }
    return _both(facts, window, tres=tres, account=job["account"], db=job["id"]) | own


def _suspended_s(job: Record, window: AccountedWindow) -> float:
    more = 0.0 if job["suspended_at"] is None else max(0.0, window.now - job["suspended_at"])
    return float(job["suspended_s"]) + more


def step_values(step: Record, job: Record, window: AccountedWindow, *, unit: str = "") -> dict[str, str]:
    """Return a step's fields as text by name."""
    row = step["row"]
    name = row["id"].rpartition(".")[2]
    facts = {
        **row,
        "state": "SUSPENDED" if job["state"] == "SUSPENDED" and not row["end"] else step_state(row),
        "start": window.start(row["start"]),
        "end": window.end(row["end"]),
        "suspended_s": _suspended_s(job, window),
        "ended_by_uid": None,
        "asked_nodes": row["nodes"],
    }
    frequency = UNKNOWN if name.isdecimal() else "0"
    own = {
        "JobID": f"{label(job)}.{name}",
        "JobIDRaw": f"{job['id']}.{name}",
        "JobName": row["name"],
        "Eligible": moment(row["start"]),
        "Layout": step["layout"] or UNKNOWN,
        "NTasks": str(row["tasks"]),
        "Submit": moment(row["start"]),
        **dict.fromkeys(("ReqCPUFreq", "ReqCPUFreqGov", "ReqCPUFreqMax", "ReqCPUFreqMin"), frequency),
    }
    tres = tres_text(plain_tres(step["tres"]), by_name=True, unit="" if unit == "raw" else unit)
    return (
        _both(facts, window, tres=tres, account=job["account"], db=job["id"], is_step=True)
        | own
        | usage_fields(step, unit=unit)
    )


def _both(
    facts: Mapping[str, Any],
    window: AccountedWindow,
    *,
    tres: str,
    account: str,
    db: int,
    is_step: bool = False,
) -> dict[str, str]:
    """Return the fields that are computed in the same way for jobs and steps."""
    start, end = facts["start"], facts["end"]
    elapsed_s = 0 if start is None else int(max(0.0, (end or window.now) - start - facts["suspended_s"]))
    cpus, used = facts["cpus"], facts["used"]
    total_s, system_s = cpu_times(used)
    energy = energy_j(used)
    if energy is None and is_step and end is not None:
        energy = 0
    return {
        "Account": account,
        "AllocCPUS": str(cpus if start is not None else facts.get("held_cpus", cpus)),
        "AllocNodes": str(facts["nodes"] if start is not None else 0),
        "AllocTRES": tres,
        "AssocID": "0",
        "Cluster": CLUSTER_NAME,
        "ConsumedEnergy": "" if energy is None else rounded(energy),
        "ConsumedEnergyRaw": "" if energy is None else str(energy),
        "CPUTime": clock(elapsed_s * cpus),
        "CPUTimeRAW": str(elapsed_s * cpus),
        "DBIndex": str(db),
        "Elapsed": clock(elapsed_s),
        "ElapsedRaw": str(elapsed_s),
        "End": moment(end),
        "ExitCode": told_exit(facts),
        "NCPUS": str(cpus),
        "NNodes": str(facts["nodes"]),
        "NodeList": facts["node_list"] or "None assigned",
        "ReqCPUS": str(cpus),
        "ReqNodes": str(facts["asked_nodes"]),
        "Start": moment(start, none=UNKNOWN if end is None else "None"),
        "State": state_text(facts),
        "Suspended": clock(facts["suspended_s"]),
        "SystemCPU": _cpu_time(system_s),
        "TotalCPU": _cpu_time(total_s),
        "UserCPU": _cpu_time(total_s - system_s),
    }


def state_text(facts: Mapping[str, Any]) -> str:
    """Return the state for the State column, such as CANCELLED by 1000.

    The user is added only if somebody ended the job. A run that was ended by a requeue is REQUEUED and not
    cancelled.
    """
    if facts.get("exit_cause") == "requeued":
        return "REQUEUED"
    if facts["state"] == "CANCELLED" and facts["ended_by_uid"] is not None:
        return f"CANCELLED by {facts['ended_by_uid']}"
    return recorded_state(facts["state"])


def recorded_state(state: str) -> str:
    """Return the state that Slurm's accounting records.

    It shows jobs that are starting or completing as running.
    """
    return "RUNNING" if state in ("CONFIGURING", "COMPLETING") else str(state)


def label(job: Record) -> str:
    """Return the job ID in one of the forms 12, 12_3 or 12_[4-9%2]."""
    if job["tasks_folded"]:
        return f"{job['array_job_id']}_[{told_tasks(job['tasks_text'])}]"
    return str(job["label"])


def exit_code(job: Record) -> str:
    """Return the exit code of a job as code:signal.

    It is 0:0 if an order such as scancel ended the job. The record of such a job is written when the order is
    given, before its processes exit.
    """
    return "0:0" if job["exit_cause"] in ENDED else told_exit(job)


def waiting_reason(job: Record) -> str:
    """Return the code of the reason why a job is pending.

    For a job that has started, the reason is None however it ended.
    """
    return "None" if job["start"] is not None else str(job["reason"]).partition(",")[0]


def step_state(row: Record) -> str:
    """Return the state of a step. A step that a signal ended is shown as cancelled."""
    by_signal = row["exit_code"] and not row["exit_code"].endswith(":0")
    return "CANCELLED" if by_signal and row["state"] in SIGNALLED else str(row["state"])


def _memory(mib: int, unit: str) -> str:
    if unit == "raw":
        return f"{mib}M"
    return rounded(mib, "M", unit=unit) if unit else exact(mib, "M")


def _cpu_time(seconds: float) -> str:
    """Format CPU time as 00:00.031, 01:02:03 or 1-00:00:00.

    Fractions of a second are shown only below an hour.
    """
    if seconds >= 3600 or seconds == int(seconds):
        return clock(seconds)
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes):02d}:{rest:06.3f}"
