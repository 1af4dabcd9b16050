"""Predicts sbatch's result for a batch script: whether it is accepted, and the value of every option, by
component.

It behaves like sbatch of Slurm 22.05 with GPUs and shards. Where sbatch would stop, this stops too, and the
values shown until then remain.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.base.cluster import other_cluster
from warpdeck.base.errors import UserError
from warpdeck.notation.foreign.translation import IGNORE, Translation, is_ignored, translation
from warpdeck.notation.option_values.option_fields import Fields, OptionSource
from warpdeck.notation.option_values.table import begin_component, show_value
from warpdeck.notation.options.directives import Component, components, script_fault, words_of
from warpdeck.notation.options.options import SBATCH_22_05, OptionTable
from warpdeck.notation.options.variables import SBATCH_VARIABLES
from warpdeck.notation.values.refusal import VALUE_EXIT, Refusal, invalid

from .checks import check, complete_paths
from .gpu_rules import check_gpus
from .reading import EARLY, Given, Reading, exit_of

_UNSHOWN = EARLY | {"het-group"}
LIMITS = frozenset(["CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS"])


class Fault(NamedTuple):
    """An error: all lines that sbatch prints, the script line (0: none), a hint, and sbatch's exit code."""

    words: list[str]
    line: int
    hint: str
    exit_code: int = 1
    is_answer: bool = False
    """True if the text is requested information, such as help, instead of an error."""


class Verdict(NamedTuple):
    """Result of a check. `shown` has the options of each component that sbatch would show, `given` the
    options that were read.
    """

    shown: list[dict[str, str]]
    given: list[list[Given]]
    fault: Fault | None

    @property
    def accepted(self) -> bool:
        return self.fault is None


def judge(
    text: str,
    name: str,
    place: OptionSource,
    *,
    words: Sequence[str] = (),
    others: Sequence[Sequence[str]] = (),
    known: OptionTable = SBATCH_22_05,
) -> Verdict:
    """Check a batch script. Any text has a verdict; nothing is raised.

    `words` are the options of the command line, `others` those of further components.
    """
    verdict = Verdict([], [], None)
    fault = script_fault(text, name)
    if fault is not None:
        return verdict._replace(fault=Fault([f"error: {line}" for line in fault[0]], 0, fault[1]))
    fields = Fields()
    reading = Reading(fields, place, known=known)
    base = name.rsplit("/", 1)[-1]
    foreign = None if is_ignored(place.environ, words, known) else _Others(text, base)
    parts, sections = components(text), [words, *others]
    parts += [Component(0, [])] * (len(sections) - len(parts))
    try:
        for number, component in enumerate(parts):
            if number:
                begin_component(fields)
            reading.given = []
            verdict.given.append(reading.given)
            _directives(reading, component, base)
            if foreign is not None and IGNORE not in fields.given:
                foreign.read_into(reading)
            reading.variables(SBATCH_VARIABLES)
            section = sections[min(number, len(sections) - 1)]
            reading.words(section, [0] * len(section))
            reading.line = 0
            check(fields, place)
            complete_paths(fields, place)
            reading.remember_hint()
            verdict.shown.append(shown(fields, known))
            check_rest(fields, place)
        check_clusters(fields)
    except Refusal as error:
        return verdict._replace(
            fault=Fault(error.lines, reading.line, error.hint, exit_of(error, place), error.is_answer)
        )
    return verdict


def shown(fields: Fields, known: OptionTable) -> dict[str, str]:
    """Return the given options with their canonical values."""
    return {
        name: show_value(fields, name)
        for name in sorted(fields.given)
        if name in known.options and name not in _UNSHOWN
    }


def _directives(reading: Reading, component: Component, name: str) -> None:
    """Read the component's directives. Raises Refusal."""
    try:
        pairs = list(words_of(component.directives, lambda number: f"{name}: line {number}"))
    except UserError as error:
        raise Refusal(error.message, error.hint, level="fatal") from None
    words, lines = [word for word, _ in pairs], [line for _, line in pairs]
    rest = reading.words(words, lines)
    if rest < len(words):
        reading.line = lines[rest]
        fault = f"Invalid directive found in batch script: {words[rest]}"
        raise Refusal(fault, "quote values that hold blanks", exit_code=VALUE_EXIT)


class _Others:
    """The #BSUB or #PBS lines of the script, which apply to each of its components."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    @functools.cached_property
    def _translation(self) -> Translation | None:
        try:
            return translation(self._text, lambda number: f"{self._name}: line {number}")
        except UserError as error:
            raise Refusal(error.message, error.hint, level="fatal") from None

    def read_into(self, reading: Reading) -> None:
        """Apply the #BSUB or #PBS lines to the component that is being read. Raises Refusal."""
        found = self._translation
        if found is None:
            return
        reading.line = 0
        try:
            for meaning in found.meanings(reading.value_of):
                reading.means(meaning, found.line)
        finally:
            reading.line = found.line


def check_rest(fields: Fields, place: OptionSource) -> None:
    """Check rules that sbatch applies after it has shown the options. Raises Refusal."""
    texts = fields.texts
    if "bbf" in texts and not _is_readable(texts["bbf"], place):
        raise invalid("bbf", "name a file that can be read")
    if "propagate" in texts and fields.user_env_s < 0:
        _check_limits(texts["propagate"])
    if fields.distribution.partition(",")[0] == "arbitrary" and "nodelist" not in texts:
        words = "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option"
        raise Refusal(words, "name the nodes with -w")
    if "clusters" not in texts and "cluster" not in texts:
        check_gpus(fields, place)
    if "export-file" in texts and not _is_readable(texts["export-file"], place):
        words = f"Could not open user environment file {texts['export-file']}"
        raise Refusal(words, "name a file that can be read")


@functools.lru_cache(maxsize=1)  # Every component of a job has the same value, so one cached result suffices.
def _check_limits(text: str) -> None:
    if text in ("ALL", "NONE"):
        return
    for word in filter(None, text.replace(" ", ",").replace("\t", ",").split(",")):
        limit = word.removeprefix("RLIMIT_")
        if limit not in LIMITS:
            more = (f"error: Bad rlimit name: {limit}",)
            raise Refusal(
                f"--propagate={text} is not valid.", "write ALL, NONE or such as MEMLOCK", more=more
            )


def check_clusters(fields: Fields) -> None:
    """Check --clusters. There is one cluster here, and no database of others. Raises Refusal."""
    name = fields.texts.get("clusters", fields.texts.get("cluster"))
    if name is not None and other_cluster(name):
        words = (
            f"'{name}' can't be reached now, or it is an invalid entry for --cluster.  "
            "Use 'sacctmgr list clusters' to see available clusters."
        )
        raise Refusal(words, "leave the option out", more=("error: Problem talking to database",))


def _is_readable(name: str, place: OptionSource) -> bool:
    try:
        place.read_text(name)
    except OSError:
        return False
    return True
