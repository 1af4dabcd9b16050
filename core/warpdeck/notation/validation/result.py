"""The result of a validation, and the steps that are common to all commands."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from warpdeck.base.cluster import other_cluster
from warpdeck.notation.foreign.option_mapping import UMASK
from warpdeck.notation.option_values.slurm_options import ENVIRONMENT, LINE, SlurmOptions
from warpdeck.notation.option_values.value_table import SAME, row, show_value, take_back
from warpdeck.notation.options.getopt import unrecognized
from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import OptionTable
from warpdeck.notation.options.submit_files import LIMITS
from warpdeck.notation.values.slurm_error import PLAIN, VALUE_EXIT, SlurmError, exit_code, invalid

from .gpu_rules import check_gpus

EARLY = frozenset({"help", "quiet", "usage", "verbose", "version", "wrap"})
"""Options that are honored only on a command line."""
_UNSHOWN = EARLY | {"het-group"}


class Rejection(NamedTuple):
    """An error: all lines that Slurm's command prints, the script line (0: none), a hint, and the exit code."""

    lines: list[str]
    line: int
    hint: str
    exit_code: int = 1
    is_answer: bool = False
    """True if the text is requested information, such as help, instead of an error."""
    code: str = ""


def rejection(error: SlurmError, source: OptionSource, line: int = 0) -> Rejection:
    """Return the rejection for an error. If it has no exit code, it has that of inconsistent options."""
    inconsistent = PLAIN if error.level.startswith("fatal") else exit_code(source.environ)
    exit_status = error.exit_code or inconsistent
    return Rejection(error.lines, line, error.hint, exit_status, error.is_answer, error.code)


class ValidationResult(NamedTuple):
    """Result of a validation. `shown` has the options of each component that Slurm would show, `given` the
    options that were read.
    """

    shown: list[dict[str, str]]
    given: list[Options]
    rejection: Rejection | None

    @property
    def accepted(self) -> bool:
        return self.rejection is None


class OptionKeeper:
    """Keeps the options of one component after the other, as Slurm's commands do while they read them.

    `line` is the current line of the script, `given` the options of the component so far.
    """

    def __init__(self, known: OptionTable) -> None:
        self.options = SlurmOptions()
        self._known = known
        self.given: Options = []
        self.early: set[str] = set()
        """The options of EARLY that were among the words."""
        self.line = 0

    def keep(self, options: Iterable[GivenOption]) -> None:
        """Keep options that were read. Raises SlurmError for the first one that is invalid."""
        for each in options:
            self.line = each.line
            if each.is_off:
                take_back(self.options, each.option)
            elif each.option in EARLY:
                self.early |= set() if each.is_variable else {each.option}
            else:
                self._keep(each)

    def _keep(self, each: GivenOption) -> None:
        is_known = each.is_variable or each.option in self._known.options
        if each.option and not is_known and each.option != UMASK:
            error = unrecognized(each.typed, self._known)
            error.exit_code = VALUE_EXIT
            raise error
        if each.option or each.error is None:
            self.given.append(each)
        if each.error is not None:
            raise each.error
        if is_known:
            option = SAME.get(each.option, each.option)
            row(option).kind.store(self.options, option, each.value)
            self.options.given[option] = ENVIRONMENT if each.is_variable else LINE

    def shown(self) -> dict[str, str]:
        """Return the given options with their canonical values."""
        return {
            name: show_value(self.options, name)
            for name in sorted(self.options.given)
            if name in self._known.options and name not in _UNSHOWN
        }


def check_rest(options: SlurmOptions, source: OptionSource) -> None:
    """Check rules that Slurm's commands apply after they have shown the options. Raises SlurmError."""
    values = options.values
    if "bbf" in values and not _is_readable(values["bbf"], source):
        raise invalid("bbf", "name a readable file")
    if "propagate" in values and options.user_env_s < 0:
        _check_limits(values["propagate"])
    if options.distribution.partition(",")[0] == "arbitrary" and "nodelist" not in values:
        words = "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option"
        raise SlurmError(words, "name the nodes with -w")
    if "clusters" not in values and "cluster" not in values:
        check_gpus(options, source)
    if "export-file" in values and not _is_readable(values["export-file"], source):
        words = f"Could not open user environment file {values['export-file']}"
        raise SlurmError(words, "name a readable file")


@functools.lru_cache(maxsize=1)  # Every component of a job has the same value, so one cached result suffices.
def _check_limits(text: str) -> None:
    if text in ("ALL", "NONE"):
        return
    for word in filter(None, text.replace(" ", ",").replace("\t", ",").split(",")):
        limit = word.removeprefix("RLIMIT_")
        if limit not in LIMITS:
            more = (f"error: Bad rlimit name: {limit}",)
            raise SlurmError(
                f"--propagate={text} is not valid.", "write ALL, NONE or such as MEMLOCK", more=more
            )


def check_clusters(options: SlurmOptions) -> None:
    """Check --clusters. There is one cluster here, and no database of others. Raises SlurmError."""
    name = options.values.get("clusters", options.values.get("cluster"))
    if name is not None and other_cluster(name):
        words = (
            f"'{name}' can't be reached now, or it is an invalid entry for --cluster.  "
            "Use 'sacctmgr list clusters' to see available clusters."
        )
        raise SlurmError(words, "leave the option out", more=("error: Problem talking to database",))


def _is_readable(name: str, source: OptionSource) -> bool:
    try:
        source.read_text(name)
    except OSError:
        return False
    return True
