"""Variables that pass options on to a job's processes, as in Slurm: options about cores, and some that have
no effect here.

MPI programs and wrappers read them. Compared with Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Callable

from warpdeck.notation.values.refusal import Refusal
from warpdeck.notation.verdict.bindings import mem_bind, mem_bind_text
from warpdeck.notation.verdict.option_fields import Fields, OptionSource
from warpdeck.notation.verdict.values import set_value

_NOWHERE = OptionSource(cwd="", environ={}, now=0)
_ONE_THREAD = frozenset({"compute_bound", "memory_bound", "nomultithread"})
ANY_NUMBER = 65_535
"""Slurm's value for an unlimited number of tasks per core."""


def told_of(option: str, value: str) -> dict[str, str]:
    """Return the variables for an option; {} if the option, or its value, sets none."""
    tell = _TELLING.get(option)
    try:
        return {} if tell is None else tell(value)
    except Refusal:
        return {}  # The invalid value is reported elsewhere, with sbatch's message.


def _hint(value: str) -> dict[str, str]:
    words = {word.lower() for word in value.split(",")}
    made = {"SLURM_HINT": value}
    if words & _ONE_THREAD:
        made["SLURM_THREADS_PER_CORE"] = "1"
    if "multithread" in words:
        made["SLURM_NTASKS_PER_CORE"] = str(ANY_NUMBER)
    return made


def _mem_bind(value: str) -> dict[str, str]:
    found, types = mem_bind(value, frozenset())
    said = "verbose" if "verbose" in types else "quiet"
    return {"SLURM_MEM_BIND": mem_bind_text(found, types), "SLURM_MEM_BIND_VERBOSE": said}


def _profile(value: str) -> dict[str, str]:
    fields = Fields()
    set_value(fields, "profile", value, _NOWHERE)
    return {"SLURM_PROFILE": fields.texts["profile"]}


def _number(variable: str) -> Callable[[str], dict[str, str]]:
    return lambda value: {variable: value} if value.isascii() and value.isdigit() else {}


_TELLING: dict[str, Callable[[str], dict[str, str]]] = {
    "hint": _hint,
    "mem-bind": _mem_bind,
    "ntasks-per-core": _number("SLURM_NTASKS_PER_CORE"),
    "profile": _profile,
    "threads-per-core": _number("SLURM_THREADS_PER_CORE"),
}
