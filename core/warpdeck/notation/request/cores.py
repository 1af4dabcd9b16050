"""How many threads of a core a job uses (--threads-per-core, of nodes that have so many, and --hint), and how many of its tasks
share one (--ntasks-per-core).

Slurm gives a job whole cores then: of cores with two threads twice the CPUs that it asks for. Measured beside 22.05. That
memory_bound means one core of each socket is left to the tasks themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpdeck.base.errors import UserError

_ONE_THREAD = frozenset({"compute_bound", "memory_bound", "nomultithread"})
_HINTS = _ONE_THREAD | {"multithread"}
MOST = 65_535
"""Slurm's word for as many as there are."""


def set_threads_per_core(resources: dict[str, Any], value: str) -> None:
    """Raises UserError."""
    count = _count(value, "threads-per-core")
    resources["threads_per_core"] = count
    resources.setdefault("node_minimum", {})["threads"] = count


def set_tasks_per_core(resources: dict[str, Any], value: str) -> None:
    """Raises UserError."""
    resources["tasks_per_core"] = _count(value, "ntasks-per-core")


def set_hint(resources: dict[str, Any], value: str) -> None:
    """Raises UserError."""
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
"""Options whose jobs' processes are told of them as well (hints)."""
