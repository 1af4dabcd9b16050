"""The usage of running jobs that sstat prints. Its fields hold no text of users."""

from __future__ import annotations

from typing import NamedTuple

from . import values

FORMAT = ("sstat", "--noheader", "--allsteps", "--parsable", "--format=JobID,TRESUsageInTot")


class GpuNow(NamedTuple):
    """Use of all GPUs of a job together: the sum of their utilizations in percent, and memory."""

    util_pct: int
    mem_bytes: int


def gpu_now(text: str) -> GpuNow | None:
    """Return the use of the GPUs by all steps, or None if the site does not gather it.

    Slurm adds up what the processes of a step use on all GPUs.
    """
    found: list[GpuNow] = []
    for line in text.splitlines():
        _, _, usage = line.partition("|")
        tres = values.tres(usage.rstrip("|"))
        util, mem = tres.get("gres/gpuutil", ""), tres.get("gres/gpumem", "")
        if util.isdigit():
            found.append(GpuNow(int(util), values.size_bytes(mem, default_unit="")))
    if not found:
        return None
    return GpuNow(sum(each.util_pct for each in found), sum(each.mem_bytes for each in found))
