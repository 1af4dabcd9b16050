"""Variables that tell the tasks of a step how they were bound and laid out, as srun sets them.

--mem-bind and --hint bind nothing here, but MPI programs and wrappers read the variables. Compared with Slurm
22.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warpdeck.notation.option_values.bindings import (
    ANY_NUMBER,
    binds,
    cpu_bind,
    cpu_bind_variables,
    mem_bind_variables,
)
from warpdeck.notation.option_values.value_table import SAME
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.values.slurm_error import SlurmError

PREFIXES = (
    "SLURM_CPU_BIND",
    "SLURM_MEM_BIND",
    "SLURM_DISTRIBUTION",
    "SLURM_THREADS_PER_CORE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_PRIO_PROCESS",
)
"""Prefixes of the names. A step's own values override those of its job."""
_HINTED = {
    "compute_bound": "cores",
    "memory_bound": "cores",
    "nomultithread": "threads",
    "multithread": "threads",
}


def step_variables(options: Iterable[GivenOption]) -> dict[str, str]:
    """Return the variables for the options of srun.

    Values that srun would reject are rejected elsewhere. A hint is overridden by the options that it stands
    for.
    """
    given = {SAME.get(each.option, each.option): each for each in options}
    bound = given["cpu-bind"].word if "cpu-bind" in given else ""
    if binds(bound) or given.keys() & {"ntasks-per-core", "threads-per-core"}:
        given.pop("hint", None)
    if any(given[option].error for option in ("cpu-bind", "mem-bind", "distribution") if option in given):
        return {}
    try:
        return {**_binding(given, bound), **_layout(given)}
    except SlurmError:
        return {}


def _hint(given: Mapping[str, GivenOption]) -> str:
    return given["hint"].word.lower() if "hint" in given else ""


def _binding(given: Mapping[str, GivenOption], bound: str) -> dict[str, str]:
    words = _HINTED.get(_hint(given), "")
    if "ntasks-per-core" in given:
        words = "cores"
    if "threads-per-core" in given:
        words = "threads"
    if bound:
        words = f"{bound},{words}" if words and not binds(bound) else bound
    made = cpu_bind_variables(cpu_bind(words)) if words else {}
    return made | (mem_bind_variables(given["mem-bind"].value) if "mem-bind" in given else {})


def _layout(given: Mapping[str, GivenOption]) -> dict[str, str]:
    made = {}
    hint = _hint(given)
    if hint == "multithread":
        made["SLURM_NTASKS_PER_CORE"] = str(ANY_NUMBER)
    elif hint in _HINTED:
        made["SLURM_THREADS_PER_CORE"] = "1"
    for option in ("threads-per-core", "ntasks-per-core"):
        if option in given and given[option].error is None:
            made[f"SLURM_{option.upper().replace('-', '_')}"] = str(given[option].value)
    if "distribution" in given:
        made["SLURM_DISTRIBUTION"] = given["distribution"].value.text
    return {name: value for name, value in made.items() if value}
