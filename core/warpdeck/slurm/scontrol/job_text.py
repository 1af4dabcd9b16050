"""A job and its steps in the layout of `scontrol show job` and `show step`, line by line. Pure functions.

Source: Slurm's job_info.c.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any

from warpdeck.slurm.fields.field import Field, Row, shaped
from warpdeck.slurm.fields.job_fields import JOB, share_gres
from warpdeck.slurm.fields.key_lines import KeyLines
from warpdeck.slurm.fields.step_fields import STEP, is_sruns, step_row
from warpdeck.slurm.format.task_lists import shown_tasks
from warpdeck.slurm.format.units import MIB, clock, exact, gres_text, or_null, tres_text
from warpdeck_agent.wire.hostnames import collapse

JOB_LAYOUT = """
JobId=id HetJobId=het_job_id|some? HetJobOffset=het_offset? ArrayJobId=array|some? ArrayTaskId=array_tasks? \
ArrayTaskThrottle=array_throttle? JobName=name
HetJobIdSet=het_ids?
UserId=user_id GroupId=group_id MCS_label==N/A
Priority=priority Nice=nice Account=account|(null) QOS=qos|(null)
JobState=state Reason=reason_word Dependency=dependency|(null)
Requeue=requeue|int Restarts=restarts BatchFlag=batch|int Reboot==0 ExitCode=exit_code
DerivedExitCode=derived_exit!
RunTime=used_s|clock TimeLimit=limit_s|clock TimeMin=time_min_s|clock-na
SubmitTime=submit|moment EligibleTime=eligible_time|moment
AccrueTime=accrue_time|moment
StartTime=start_time|moment EndTime=ends|moment Deadline=deadline|moment-na
SuspendTime=stopped_at|moment-none SecsPreSuspend=before_stop_s|int LastSchedEval=start|moment Scheduler==Main
Partition=partition|(null) AllocNode:Sid=submit_node
ReqNodeList=req_nodes|(null) ExcNodeList=exc_nodes|(null)
NodeList=node_list
BatchHost=batch_node?
NumNodes=node_range NumCPUs=cpus NumTasks=tasks CPUs/Task=cpus_per_task ReqB:S:C:T==0:0:*:*
TRES=tres|tres
Socks/Node==* NtasksPerN:B:S:C=tasks_per CoreSpec==*
JOB_GRES=gres?!
@nodes!
MinCPUsNode=min_cpus MinMemoryCPU=memory_of_cpu? MinMemoryNode=memory_of_node? MinTmpDiskNode=tmp_disk|mib
Features=features|(null) DelayBoot==00:00:00
Reservation=reservation?
OverSubscribe=oversubscribe Contiguous=contiguous|int Licenses=licenses|(null) Network==(null)
Command=command|(null)
WorkDir=work_dir
AdminComment=admin_comment|blank?
Comment=comment|blank?
StdErr=stderr
StdIn==/dev/null
StdOut=stdout
Switches=switches?
Power==
CpusPerTres=cpus_per_tres?
MemPerTres=mem_per_tres?
TresPerJob=tres_per_job?
TresPerNode=tres_per_node?
TresPerTask=tres_per_task?
MailUser=mail_to? MailType=mail_types|joined?
"""
STEP_LAYOUT = """
StepId=id UserId=uid StartTime=start|moment TimeLimit==UNLIMITED
State=state Partition=partition NodeList=node_list
Nodes=nodes CPUs=srun_cpus Tasks=tasks Name=name Network==(null)
TRES=srun_tres
ResvPorts==(null)
CPUFreqReq==Default Dist=srun_layout?
SrunHost:Pid=srun_host
"""


def _gres(row: Row) -> str:
    counts: dict[str, int] = {}
    for share in row["shares"]:
        for kind, gpus in share["gpus"].items():
            counts[kind] = counts.get(kind, 0) + len(gpus)
    return or_null(gres_text(counts)) if row["shares"] else ""


def _nodes(row: Row) -> list[str]:
    """Return one line for each run of consecutive nodes with equal resources."""
    return [
        f"  Nodes={collapse(share['name'] for share in shares)} {held}"
        for held, shares in groupby(row["shares"], key=_held)
    ]


def _held(share: dict[str, Any]) -> str:
    last = max(0, share["cpus"] - 1)
    cpus = f"0-{last}" if last else "0"
    return f"CPU_IDs={cpus} Mem={share['mem_bytes'] // MIB} GRES={share_gres(share)}"


def _memory_of_cpu(row: Row) -> str:
    size = row["mem_per_cpu_bytes"]
    return "" if size is None else exact(size // MIB, "M")


def _memory_of_node(row: Row) -> str:
    size = row["mem_per_node_bytes"] or 0
    return "" if row["mem_per_cpu_bytes"] is not None else exact(size // MIB, "M") if size else "0"


def _switches(row: Row) -> str:
    return f"{row['max_switches']}@{clock(row['switches_wait_s'])}" if row["max_switches"] else ""


def _of_srun(field: Field, *, other: object) -> Field:
    """Return the field of a step that srun started. Other steps have the value `other`."""
    return Field(field.needs, lambda row: field.value(row) if is_sruns(row) else other)


JOB_FIELDS: dict[str, Field] = {
    **JOB,
    "array_tasks": shaped(JOB["tasks_text"], lambda tasks: shown_tasks(tasks) if tasks else ""),
    "array_throttle": Field("throttle tasks_text", lambda row: (row["tasks_text"] and row["throttle"]) or ""),
    "batch_node": Field("batch batch_host", lambda row: row["batch_host"] if row["batch"] else ""),
    "gres": Field("shares", _gres),
    "group_id": Field("uid", lambda row: f"{JOB['group'].value(row)}({JOB['gid'].value(row)})"),
    "het_ids": Field(
        "het_job_id het_job_id_set", lambda row: row["het_job_id_set"] if row["het_job_id"] else ""
    ),
    "mail_to": Field(
        "mail_types mail_user user",
        lambda row: (row["mail_types"] and (row["mail_user"] or row["user"])) or "",
    ),
    "memory_of_cpu": Field("mem_per_cpu_bytes", _memory_of_cpu),
    "memory_of_node": Field("mem_per_cpu_bytes mem_per_node_bytes", _memory_of_node),
    "nodes": Field("shares", _nodes),
    "reason_word": shaped(JOB["reason"], lambda reason: reason.replace(" ", "_")),
    "submit_node": shaped(JOB["submit_host"], lambda host: f"{host or 'localhost'}:0"),
    "switches": Field("max_switches switches_wait_s", _switches),
    "tasks_per": shaped(JOB["tasks_per_node"], lambda tasks: f"{tasks}:0:*:*"),
    "user_id": Field("user uid", lambda row: f"{row['user']}({row['uid']})"),
}
STEP_FIELDS: dict[str, Field] = {
    **STEP,
    "srun_cpus": _of_srun(STEP["cpus"], other=0),
    "srun_host": shaped(_of_srun(STEP["batch_host"], other="(null)"), lambda host: f"{host}:0"),
    "srun_layout": _of_srun(shaped(STEP["layout"], lambda layout: layout or "Block"), other=""),
    "srun_tres": _of_srun(shaped(STEP["tres"], partial(tres_text, none="(null)")), other="(null)"),
}
JOB_TEXT = KeyLines(JOB_LAYOUT, JOB_FIELDS)
"""A job. Slurm prints an empty line below it."""
STEP_TEXT = KeyLines(STEP_LAYOUT, STEP_FIELDS)


def step_lines(step: Row, job: Row) -> list[str]:
    """Return the lines of a running step, which is a `StepRecord` of the controller."""
    return STEP_TEXT.lines(step_row(step, job))
