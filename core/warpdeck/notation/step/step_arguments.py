"""Variables that tell the tasks of a step how they were bound and laid out, as srun sets them.

--mem-bind and --hint bind nothing here, but MPI programs and wrappers read the variables. Compared with Slurm
22.05.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.notation.option_values.bindings import binds, cpu_bind_told, distribution, mem_bind_told
from warpdeck.notation.option_values.job_values import ANY_NUMBER
from warpdeck.notation.values.refusal import Refusal

TOLD = (
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


def told_of_step(options: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for long options and their values.

    Values that srun would reject are rejected elsewhere. A hint is overridden by the options that it stands
    for.
    """
    bound = options.get("cpu-bind", "")
    if binds(bound) or options.keys() & {"ntasks-per-core", "threads-per-core"}:
        options = {name: value for name, value in options.items() if name != "hint"}
    try:
        return {**_bound(options), **_laid_out(options)}
    except Refusal:
        return {}


def _bound(options: Mapping[str, str]) -> dict[str, str]:
    words, bound = "", options.get("cpu-bind", "")
    hint = options.get("hint", "").lower()
    for asked, kind in (
        (hint in _HINTED, _HINTED.get(hint, "")),
        ("ntasks-per-core" in options, "cores"),
        ("threads-per-core" in options, "threads"),
    ):
        if asked:
            words = kind
    if bound:
        words = f"{bound},{words}" if words and not binds(bound) else bound
    told = cpu_bind_told(words) if words else {}
    return told | (mem_bind_told(options["mem-bind"]) if "mem-bind" in options else {})


def _laid_out(options: Mapping[str, str]) -> dict[str, str]:
    told = {}
    hint = options.get("hint", "").lower()
    if hint == "multithread":
        told["SLURM_NTASKS_PER_CORE"] = str(ANY_NUMBER)
    elif hint in _HINTED:
        told["SLURM_THREADS_PER_CORE"] = "1"
    for option in ("threads-per-core", "ntasks-per-core"):
        if options.get(option, "").isdecimal():
            told[f"SLURM_{option.upper().replace('-', '_')}"] = options[option]
    if "distribution" in options:
        told["SLURM_DISTRIBUTION"] = distribution(options["distribution"], "1")[0]
    return {name: value for name, value in told.items() if value}
