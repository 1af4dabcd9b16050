"""Values of a job that several of Slurm's commands show, computed from the columns of its row. Pure functions.

The commands format a value differently: squeue prints N/A where scontrol prints nothing and JSON has "".
"""

from __future__ import annotations

from .format_strings import Row
from .job_states import ENDED
from .units import MIB

STARTS = "start expected_start ends state"
"""Columns that `start_of` reads."""
MIN_CPUS = "cpus_per_task tasks_per_node"
"""Columns that `min_cpus` reads."""
MEMORY = "mem_per_node_bytes mem_per_cpu_bytes"
"""Columns that `memory_bytes` reads."""


def start_of(row: Row) -> float | None:
    """Return the actual or expected start of the job.

    For a job that ended before it started, return its end, as Slurm does.
    """
    start: float | None = row["start"] or row["expected_start"]
    return row["ends"] if start is None and row["state"] in ENDED else start


def wait_status(text: str) -> int:
    """Convert an exit code (code:signal) to a wait(2) status: 256 times the code, plus the signal."""
    code, _, signal = text.partition(":")
    return int(code) * 256 + int(signal)


def min_cpus(row: Row) -> int:
    """Return the minimum number of CPUs on each node."""
    return int(row["cpus_per_task"]) * max(1, int(row["tasks_per_node"]))


def memory_bytes(row: Row) -> int:
    """Return the requested memory per node, or else per CPU, in bytes."""
    return row["mem_per_node_bytes"] or row["mem_per_cpu_bytes"] or 0


def cpus_per_tres(row: Row) -> str:
    """Return the requested CPUs per GPU in Slurm's notation, or ""."""
    return _per_gpu(row["cpus_per_gpu"])


def mem_per_tres(row: Row) -> str:
    """Return the requested memory per GPU in MiB in Slurm's notation, or ""."""
    return _per_gpu((row["mem_per_gpu_bytes"] or 0) // MIB if row["mem_per_gpu_bytes"] else None)


def _per_gpu(count: int | None) -> str:
    return f"gres:gpu:{count}" if count else ""
