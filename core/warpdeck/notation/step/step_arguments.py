"""What tasks of a step are told in variables of how they were to be bound and laid out, as srun tells them. Pure.

Nothing is bound by --mem-bind and --hint here; programs and wrappers of MPI look at the variables all the same. Measured beside 22.05.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.notation.request.hints import ANY_NUMBER
from warpdeck.notation.values.refusal import Refusal
from warpdeck.notation.verdict.bindings import binds, cpu_bind_told, distribution, mem_bind_told

TOLD = (
    "SLURM_CPU_BIND",
    "SLURM_MEM_BIND",
    "SLURM_DISTRIBUTION",
    "SLURM_THREADS_PER_CORE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_PRIO_PROCESS",
)
"""How the names begin; a step's own word goes before its job's."""
_HINTED = {
    "compute_bound": "cores",
    "memory_bound": "cores",
    "nomultithread": "threads",
    "multithread": "threads",
}


def told_of_step(options: Mapping[str, str]) -> dict[str, str]:
    """Of long options and their values. What srun would refuse, it refuses elsewhere. A hint yields to what it stands for."""
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
