"""A job and its steps in the layout of `scontrol show job` and `show step`, line by line. Pure functions.

Source: Slurm's job_info.c.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from warpdeck.base.passwd import group_of
from warpdeck_agent.wire.hostnames import collapse

from .job_states import told_exit, told_state
from .task_lists import told_tasks
from .units import clock, exact, gpus_text, gres_text, moment, or_null, tres_text

Record = dict[str, Any]
"""A job in a response to a Records request: the fields below, and `steps`."""
FIELDS = [
    "id",
    "label",
    "array_job_id",
    "het_job_id",
    "het_job_offset",
    "het_job_id_set",
    "array_task_id",
    "tasks_pending",
    "name",
    "user",
    "uid",
    "account",
    "partition",
    "qos",
    "state",
    "why",
    "reason",
    "priority_told",
    "nodes",
    "nodes_told",
    "node_list",
    "cpus",
    "limit_s",
    "submit",
    "start",
    "end",
    "exit_code",
    "restarts",
    "exit_cause",
    "comment",
    "admin_comment",
    "command",
    "work_dir",
    "stdout",
    "stderr",
    "submit_host",
    "batch",
    "batch_host",
    "eligible",
    "begin",
    "deadline",
    "ends",
    "suspended_at",
    "stopped_at",
    "before_stop_s",
    "special_exit",
    "suspended_s",
    "dependency",
    "features",
    "req_nodes",
    "exc_nodes",
    "reservation",
    "licenses",
    "nice",
    "requeue",
    "time_min_s",
    "nodes_min",
    "nodes_max",
    "tasks",
    "tasks_per_node",
    "cpus_per_task",
    "cpus_per_gpu",
    "mem_per_node_bytes",
    "mem_per_cpu_bytes",
    "mem_per_gpu_bytes",
    "oversubscribe",
    "contiguous",
    "tres",
    "tres_per_job",
    "tres_per_node",
    "tres_per_task",
    "shares",
    "tasks_text",
    "throttle",
    "max_switches",
    "cpus_per_node_min",
    "tmp_disk_bytes",
    "switches_wait_s",
    "mail_types",
    "mail_user",
]
MIB = 2**20
ENDED = frozenset({"cancelled", "timeout", "requeued", "preempted"})
"""Exit causes of a job that was ended by an order, such as a cancellation or its time limit.

The job's record is written when the order is given. The records of its steps show how their processes exited.
"""


def job_lines(job: Record, *, details: bool, now: float) -> list[str]:
    """Return all lines of a job. The last line is empty, as in Slurm."""
    group, gid = group_of(job["uid"])
    lines = [
        _name(job),
        *([f"HetJobIdSet={job['het_job_id_set']}"] if job["het_job_id"] else []),
        f"UserId={job['user']}({job['uid']}) GroupId={group}({gid}) MCS_label=N/A",
        f"Priority={max(0, job['priority_told'] or 0)} Nice={job['nice']} Account={or_null(job['account'])} "
        f"QOS={or_null(job['qos'])}",
        f"JobState={told_state(job)} Reason={job['reason'].replace(' ', '_')} Dependency={or_null(job['dependency'])}",
        f"Requeue={int(job['requeue'])} Restarts={job['restarts']} BatchFlag={int(job['batch'])} Reboot=0 "
        f"ExitCode={told_exit(job)}",
    ]
    if details:
        lines.append(f"DerivedExitCode={derived_exit(job)}")
    return [*lines, *_times(job, now), *_places(job), *_sizes(job, details=details), *_words(job), ""]


def _name(job: Record) -> str:
    head = f"JobId={job['id']} "
    if job["het_job_id"]:
        head += f"HetJobId={job['het_job_id']} HetJobOffset={job['het_job_offset']} "
    if job["tasks_text"]:
        throttle = f"ArrayTaskThrottle={job['throttle']} " if job["throttle"] else ""
        head += f"ArrayJobId={job['array_job_id']} ArrayTaskId={told_tasks(job['tasks_text'])} {throttle}"
    return f"{head}JobName={job['name']}"


def derived_exit(job: Record) -> str:
    """Return the highest exit code of the steps that srun started, as code:signal.

    The batch and extern steps do not count. If the job's end was ordered, steps that a signal killed do not
    count either.
    """
    rows = [step["row"] for step in job.get("steps", ())]
    codes = [
        told_exit(row).split(":")
        for row in rows
        if row["exit_code"]
        and (job["exit_cause"] not in ENDED or row["exit_code"].endswith(":0"))
        and row["id"].rpartition(".")[2].isdecimal()
    ]
    code, number = max(((int(code), int(number)) for code, number in codes), default=(0, 0))
    return f"{code}:{number}"


def _times(job: Record, now: float) -> list[str]:
    start, end = expected(job)
    # Slurm shows tasks that wait for their array's task limit as not eligible yet.
    eligible = None if job["reason"] == "JobArrayTaskLimit" else job["eligible"]
    return [
        f"RunTime={clock(run_s(job, now))} TimeLimit={clock(job['limit_s'])} "
        f"TimeMin={clock(job['time_min_s'], none='N/A')}",
        f"SubmitTime={moment(job['submit'])} EligibleTime={moment(eligible)}",
        f"AccrueTime={moment(job['eligible'])}",
        f"StartTime={moment(start)} EndTime={moment(end)} Deadline={moment(job['deadline'], none='N/A')}",
        f"SuspendTime={moment(job['stopped_at'], none='None')} SecsPreSuspend={int(job['before_stop_s'])} "
        f"LastSchedEval={moment(job['start'])} Scheduler=Main",
    ]


def expected(job: Record) -> tuple[float | None, float | None]:
    """Return the start and end of the job, actual or expected."""
    if job["start"] is not None:
        return job["start"], job["ends"]
    if job["end"] is not None:  # The job was cancelled before it started.
        return job["end"], job["end"]
    start = (job["why"] or {}).get("expected_start") or job["begin"]
    if start is None or job["limit_s"] is None:
        return start, None
    return start, start + job["limit_s"]


def run_s(job: Record, now: float) -> float:
    """Return the run time in seconds up to now or to the job's end, without suspended time."""
    if job["start"] is None:
        return 0.0
    until = job["end"] or job["suspended_at"] or now
    return max(0.0, float(until - job["start"] - job["suspended_s"]))


def _places(job: Record) -> list[str]:
    lines = [
        f"Partition={or_null(job['partition'])} AllocNode:Sid={job['submit_host'] or 'localhost'}:0",
        f"ReqNodeList={or_null(job['req_nodes'])} ExcNodeList={or_null(job['exc_nodes'])}",
        f"NodeList={job['node_list']}",
    ]
    return [*lines, f"BatchHost={job['batch_host']}"] if job["batch"] and job["batch_host"] else lines


def _sizes(job: Record, *, details: bool) -> list[str]:
    per_task, per_node = job["cpus_per_task"], job["tasks_per_node"]
    lines = [
        f"NumNodes={_node_range(job)} NumCPUs={job['cpus']} NumTasks={job['tasks']} CPUs/Task={per_task} "
        "ReqB:S:C:T=0:0:*:*",
        f"TRES={tres_text(plain_tres(job['tres']), none='(null)')}",
        f"Socks/Node=* NtasksPerN:B:S:C={per_node}:0:*:* CoreSpec=*",
    ]
    if details and job["shares"]:
        lines.append(f"JOB_GRES={_gres(job)}")
        lines += _shares(job)
    least = max(per_task * max(1, per_node), job["cpus_per_node_min"])
    disk = exact(job["tmp_disk_bytes"] // MIB, "M") if job["tmp_disk_bytes"] else 0
    lines.append(f"MinCPUsNode={least} {_memory(job)} MinTmpDiskNode={disk}")
    return lines


def plain_tres(tres: dict[str, int]) -> dict[str, int]:
    """Return the TRES without the GPU types (gres/gpu:TYPE). Slurm counts only gres/gpu by default."""
    return {name: count for name, count in tres.items() if not name.startswith("gres/gpu:")}


def _node_range(job: Record) -> str:
    if job["shares"]:
        return str(job["nodes"])
    likely, high = job["nodes_told"], job["nodes_max"]
    return f"{min(likely, high)}-{high}" if high else str(likely)


def _gres(job: Record) -> str:
    counts: dict[str, int] = {}
    for share in job["shares"]:
        for kind, gpus in share["gpus"].items():
            counts[kind] = counts.get(kind, 0) + len(gpus)
    return or_null(gres_text(counts))


def _shares(job: Record) -> list[str]:
    """Return one line for each run of consecutive nodes with equal resources."""
    lines = []
    for held, shares in groupby(job["shares"], key=_held):
        lines.append(f"  Nodes={collapse(share['name'] for share in shares)} {held}")
    return lines


def _held(share: dict[str, Any]) -> str:
    gres = ",".join(gpus_text(kind, gpus) for kind, gpus in share["gpus"].items())
    last = max(0, share["cpus"] - 1)
    cpus = f"0-{last}" if last else "0"
    return f"CPU_IDs={cpus} Mem={share['mem_bytes'] // MIB} GRES={gres}"


def _memory(job: Record) -> str:
    if job["mem_per_cpu_bytes"] is not None:
        return f"MinMemoryCPU={exact(job['mem_per_cpu_bytes'] // MIB, 'M')}"
    size = job["mem_per_node_bytes"]
    return f"MinMemoryNode={exact(size // MIB, 'M') if size else 0}"


def _words(job: Record) -> list[str]:
    lines = [f"Features={or_null(job['features'])} DelayBoot=00:00:00"]
    if job["reservation"]:
        lines.append(f"Reservation={job['reservation']}")
    lines += [
        f"OverSubscribe={job['oversubscribe']} Contiguous={int(job['contiguous'])} "
        f"Licenses={or_null(job['licenses'])} Network=(null)",
        f"Command={or_null(job['command'])}",
        f"WorkDir={job['work_dir']}",
    ]
    if job["admin_comment"]:
        lines.append(f"AdminComment={job['admin_comment']} ")
    if job["comment"]:
        lines.append(f"Comment={job['comment']} ")
    lines += [f"StdErr={job['stderr']}", "StdIn=/dev/null", f"StdOut={job['stdout']}"]
    if job["max_switches"]:
        lines.append(f"Switches={job['max_switches']}@{clock(job['switches_wait_s'])}")
    lines.append("Power=")
    if job["cpus_per_gpu"]:
        lines.append(f"CpusPerTres=gres:gpu:{job['cpus_per_gpu']}")
    if job["mem_per_gpu_bytes"]:
        lines.append(f"MemPerTres=gres:gpu:{job['mem_per_gpu_bytes'] // MIB}")
    for field, name in (
        ("tres_per_job", "TresPerJob"),
        ("tres_per_node", "TresPerNode"),
        ("tres_per_task", "TresPerTask"),
    ):
        if job[field]:
            lines.append(f"{name}={job[field]}")
    if job["mail_types"]:
        lines.append(f"MailUser={job['mail_user'] or job['user']} MailType={','.join(job['mail_types'])}")
    return lines


def step_lines(step: dict[str, Any], job: Record) -> list[str]:
    """Return the lines of a running step in the layout of `scontrol show step`."""
    row = step["row"]
    own = row["id"].rpartition(".")[2].isdecimal()
    return [
        f"StepId={row['id']} UserId={job['uid']} StartTime={moment(row['start'])} TimeLimit=UNLIMITED",
        f"State={row['state']} Partition={job['partition']} NodeList={row['node_list']}",
        f"Nodes={row['nodes']} CPUs={row['cpus'] if own else 0} Tasks={row['tasks']} Name={row['name']} Network=(null)",
        f"TRES={tres_text(step['tres'], none='(null)') if own else '(null)'}",
        "ResvPorts=(null)",
        "CPUFreqReq=Default" + (f" Dist={step['layout'] or 'Block'}" if own else ""),
        f"SrunHost:Pid={job['batch_host'] if own else '(null)'}:0",
    ]
