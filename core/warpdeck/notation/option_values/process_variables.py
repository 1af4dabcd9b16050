"""Variables that pass options on to a job's processes, as in Slurm: options about cores, and some that have no
effect here.

MPI programs and wrappers read them. Compared with Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Callable

from .bindings import mem_bind, mem_bind_text
from .job_values import ANY_NUMBER, ONE_THREAD
from .slurm_values import profile_of

ProcessVariables = Callable[[str], dict[str, str]]
"""Function that returns the variables for an option's value; raises Refusal for a value that Slurm rejects."""


def of_hint(value: str) -> dict[str, str]:
    """Return the variables of --hint."""
    words = {word.lower() for word in value.split(",")}
    made = {"SLURM_HINT": value}
    if words & ONE_THREAD:
        made["SLURM_THREADS_PER_CORE"] = "1"
    if "multithread" in words:
        made["SLURM_NTASKS_PER_CORE"] = str(ANY_NUMBER)
    return made


def of_mem_bind(value: str) -> dict[str, str]:
    """Return the variables of --mem-bind. Raises Refusal."""
    found, types = mem_bind(value, frozenset())
    loudness = "verbose" if "verbose" in types else "quiet"
    return {"SLURM_MEM_BIND": mem_bind_text(found, types), "SLURM_MEM_BIND_VERBOSE": loudness}


def of_profile(value: str) -> dict[str, str]:
    """Return the variables of --profile. Raises Refusal."""
    return {"SLURM_PROFILE": profile_of(value)}


def number(variable: str) -> ProcessVariables:
    """Return the function for an option that sets this variable to its number."""
    return lambda value: {variable: value} if value.isascii() and value.isdigit() else {}
