"""Prints readings of the GPUs of a Slurm job on this node, for a gateway to Slurm.

  gpusampler SECONDS

The gateway runs this program as a step of the job on each of its nodes. It prints one line of JSON, a JobSample, at this
interval, and ends with its standard input. Slurm may hide other GPUs from the program, so a line also describes all GPUs
that it sees.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading
import time
from typing import List

from warpdeck_agent.isolation.job_processes import variable
from warpdeck_agent.linux.procfs import text
from warpdeck_agent.wire.jsontext import dumps
from warpdeck_agent.wire.messages import GpuProcess, GpuSample, JobSample

from .gpus import GpuReader

READ_BYTES = 4096


def main(argv: List[str]) -> int:
    """Print readings until the input ends. The driver may hang, so the readings have a thread of their own."""
    threading.Thread(target=_print_readings, args=(float(argv[0]),), daemon=True).start()
    try:
        while os.read(0, READ_BYTES):
            pass
    except OSError:
        pass
    os._exit(0)


def _print_readings(interval_s: float) -> None:
    job_id = int(os.environ.get("SLURM_JOB_ID") or 0)
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    reader = GpuReader(lambda: {})
    cards = reader.open()
    while True:
        gpus = [_with_job(gpu, job_id) for gpu in reader.read(True)]
        line = JobSample(node=node, at_unix=time.time(), cards=cards, gpus=gpus)
        try:
            os.write(1, (dumps(dataclasses.asdict(line)) + "\n").encode("utf-8", "replace"))
        except OSError:  # nobody reads the output
            os._exit(0)
        time.sleep(interval_s)


def _with_job(gpu: GpuSample, job_id: int) -> GpuSample:
    found = [_marked(process, job_id) for process in gpu.processes]
    return dataclasses.replace(gpu, processes=found)


def _marked(process: GpuProcess, job_id: int) -> GpuProcess:
    return dataclasses.replace(process, job_id=job_id if _belongs(process.pid, job_id) else 0)


def _belongs(pid: int, job_id: int) -> bool:
    """Return whether a process belongs to the job: by its cgroup, or by its environment where Slurm uses no cgroups."""
    cgroup = re.search(r"/job_(\d+)(?:/|$)", text(f"/proc/{pid}/cgroup"), re.MULTILINE)
    found = cgroup[1] if cgroup else variable(pid, "SLURM_JOB_ID")
    return found == str(job_id)
