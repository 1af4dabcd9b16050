"""seff: reports how efficiently a job used its resources, in the format of the program in Slurm's contribs.

CPU time and memory are measured by the agents over all processes of the job. For memory, only the largest use
of any node is known. So the value for several nodes is an upper estimate.
"""

from __future__ import annotations

import time

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of
from warpdeck.notation.values.job_ids import is_job_id
from warpdeck.slurm.console.command_options import handle_help, options, read
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.format.units import clock

OPTIONS = options("seff", "debug,d help,h version,v")
HELP = """Usage: seff [Options] <JobID>
  -h  --help       show this help
  -v  --version    show the version

  seff 12          compare the CPU time and memory used by the job with its allocation
  seff 12_3        the same for a task of an array
"""
FIELDS = """
id label array_job_id array_task_id user uid state start end exit_code cpus nodes tres used suspended_s
"""
NO_JOB_EXIT = 2
UNITS = ("KB", "MB", "GB", "TB", "PB", "EB")
MIB_IN_KIB = 1024


def main(words: list[str], console: Console) -> int:
    """Print the report and return the exit code."""
    found, rest = read(words, OPTIONS)
    if handle_help(found, console, help_text=HELP):
        return 0
    if len(rest) != 1:
        console.streams.out.write(HELP)
        return 1
    if not is_job_id(rest[0]):
        raise CommandError(f"Invalid job id: {rest[0]}")
    with console.controller.connect() as client:
        jobs = client.call("records", ids=[rest[0]], fields=FIELDS.split(), ended=True)["jobs"]
    if not jobs:
        console.streams.err.write("Job not found.\n")
        return NO_JOB_EXIT
    job = next((each for each in jobs if str(each["id"]) == rest[0]), jobs[0])
    console.print_lines([*_who(job), *_how(job)])
    return 0


def _who(job: Row) -> list[str]:
    code, _, signal = (job["exit_code"] or "0:0").partition(":")
    state = job["state"]
    if job["end"] is not None:
        state += f" (exit code {128 + int(signal) if signal != '0' else code})"
    task = job["array_task_id"]
    return [
        f"Job ID: {job['id']}",
        *([] if task is None else [f"Array Job ID: {job['array_job_id']}_{task}"]),
        f"Cluster: {CLUSTER_NAME}",
        f"User/Group: {job['user']}/{group_of(job['uid'])[0]}",
        f"State: {state}",
    ]


def _how(job: Row) -> list[str]:
    if job["start"] is None:
        return [f"Efficiency not available for jobs in the {job['state']} state."]
    used = job["used"] or {}
    end = time.time() if job["end"] is None else job["end"]
    elapsed_s = int(max(0.0, end - job["start"] - job["suspended_s"]))
    held_s = elapsed_s * job["cpus"]
    cpu_s = int(used.get("cpu_seconds") or 0)
    nodes = max(1, job["nodes"])
    mem_kib = (used.get("peak_mem_bytes") or 0) * nodes / 1024
    asked_kib = job["tres"].get("mem", 0) * MIB_IN_KIB
    lines = [
        *_cores(job),
        f"CPU Utilized: {clock(cpu_s)}",
        f"CPU Efficiency: {_percent(cpu_s, held_s)} of {clock(held_s)} core-walltime",
        f"Job Wall-clock time: {clock(elapsed_s)}",
        f"Memory Utilized: {size(mem_kib)}{' (estimated maximum)' if nodes > 1 else ''}",
        f"Memory Efficiency: {_percent(mem_kib, asked_kib)} of {size(asked_kib)}",
    ]
    if job["end"] is None:
        lines.append(f"WARNING: Efficiency statistics may be misleading for {job['state']} jobs.")
    return lines


def _cores(job: Row) -> list[str]:
    if job["cpus"] == 1:
        return ["Cores: 1"]
    nodes = max(1, job["nodes"])
    return [f"Nodes: {nodes}", f"Cores per node: {job['cpus'] // nodes}"]


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.2f}%"


def size(kib: float) -> str:
    """Format a size given in KiB, for example 1.50 GB. Zero is shown as 0.00 MB."""
    if not kib:
        return "0.00 MB"
    place = 0
    while kib >= 1024 and place < len(UNITS) - 1:
        kib /= 1024
        place += 1
    return f"{kib:.2f} {UNITS[place]}"
