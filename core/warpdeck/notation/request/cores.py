"""Options about threads and cores: --threads-per-core, --hint and --ntasks-per-core.

With --threads-per-core a job uses this many threads per core, on nodes that have as many; --ntasks-per-core
limits how many of its tasks share one core. Slurm then gives a job whole cores, for example twice the
requested CPUs on cores with two threads. Compared with Slurm 22.05. The rule of memory_bound to use one core
of each socket is left to the tasks themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpdeck.base.errors import UserError

_ONE_THREAD = frozenset({"compute_bound", "memory_bound", "nomultithread"})
_HINTS = _ONE_THREAD | {"multithread"}
MOST = 65_535
"""Slurm's value that means "as many as there are" for counts of threads or tasks per core."""


def set_threads_per_core(resources: dict[str, Any], value: str) -> None:
    """Set --threads-per-core. Raises UserError."""
    count = _count(value, "threads-per-core")
    resources["threads_per_core"] = count
    resources.setdefault("node_minimum", {})["threads"] = count


def set_tasks_per_core(resources: dict[str, Any], value: str) -> None:
    """Set --ntasks-per-core. Raises UserError."""
    resources["tasks_per_core"] = _count(value, "ntasks-per-core")


def set_hint(resources: dict[str, Any], value: str) -> None:
    """Set --hint. Raises UserError."""
    words = [word.lower() for word in value.split(",")]
    if not all(word in _HINTS for word in words):
        raise UserError(f"--hint={value} is not understood", f"write one of {', '.join(sorted(_HINTS))}")
    if _ONE_THREAD & set(words):
        resources["threads_per_core"] = 1


def _count(text: str, option: str) -> int | None:
    if not text.isascii() or not text.isdigit() or not int(text[:8]) > 0:
        raise UserError(f"--{option}={text} is no whole number", "write a number")
    return int(text) if len(text) < 6 and int(text) < MOST else None


OF_CORES: dict[str, Callable[[dict[str, Any], str], None]] = {
    "hint": set_hint,
    "ntasks-per-core": set_tasks_per_core,
    "threads-per-core": set_threads_per_core,
}
"""Options that also set variables for the job's processes (see `hints`)."""
