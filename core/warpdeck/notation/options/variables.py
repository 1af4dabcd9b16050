"""Environment variables that set options: SBATCH_*, SALLOC_* and srun's. They override a script; the command
line overrides them. The table of options contains them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .given_options import GivenOption, Options
from .option_table import NONE, SALLOC, SBATCH, SRUN, OptionTable

_PREFIXES = {"b": "SBATCH_", "a": "SALLOC_", "r": "SLURM_", "s": "SLURM_"}
_PARTS = {"REQ_SWITCH": "switch-req", "WAIT4SWITCH": "switch-wait"}
"""Pseudo-options for variables that hold one part of --switches."""

Variables = tuple[tuple[str, str], ...]
"""Pairs of (variable, option)."""


def _of(known: OptionTable, letter: str) -> Variables:
    """Return the variables of a command, sorted by name without the prefix: nearly the order in which Slurm reads
    them.
    """
    found = []
    for option in known.options.values():
        for variable in option.variables:
            name, _, commands = variable.partition(":")
            if letter in (commands or option.commands):
                prefix = "" if name.startswith(("SLURM", "SRUN_")) else _PREFIXES[letter]
                found.append((prefix + name, _PARTS.get(name, option.name)))
    return tuple(sorted(found, key=lambda pair: pair[0].partition("_")[2].replace("_", " ")))


SBATCH_VARIABLES, SALLOC_VARIABLES, SRUN_VARIABLES = _of(SBATCH, "b"), _of(SALLOC, "a"), _of(SRUN, "r")
STEP_VARIABLES = _of(SRUN, "s")
"""The variables that srun reads inside a job."""


def is_on(text: str) -> bool:
    """Return whether the value of a variable turns on an option without a value: "", "yes", or a nonzero
    number.
    """
    word = text.strip()
    return not text or word.lower() == "yes" or (word.lstrip("+-").isdecimal() and word.strip("+-0") != "")


_WORDS = {"requeue": frozenset({"expedite", "limit", "expedite,limit", "limit,expedite"})}
"""Options without a value in Slurm 22.05, and the values that newer versions or warpdeck know. Other values of their
variables turn the option on or off.
"""


def variable_options(environ: Mapping[str, str], variables: Variables, known: OptionTable) -> Options:
    """Return the options that variables set, or turn off, in the order of the table."""
    found: Options = []
    for variable, option in variables:
        text = environ.get(variable)
        if text is None:
            continue
        syntax = known.options.get(option)
        is_flag = syntax is not None and (
            syntax.takes == NONE or (option in _WORDS and text.lower() not in _WORDS[option])
        )
        found.append(
            GivenOption(
                option,
                None if is_flag else text,
                variable,
                is_variable=True,
                is_off=is_flag and not is_on(text),
            )
        )
    return found


_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})


def effective(options: Sequence[GivenOption]) -> Options:
    """Return the options without those that a variable turns off or that a written option overrides.

    --mem, --mem-per-cpu and --mem-per-gpu exclude each other, and a written option overrides a variable for any of
    them.
    """
    found: Options = []
    for given in options:
        if given.is_off:
            found = [each for each in found if each.option != given.option]
        else:
            found.append(given)
    if any(each.option in _MEMORY and not each.is_variable for each in found):
        found = [each for each in found if each.option not in _MEMORY or not each.is_variable]
    return found
