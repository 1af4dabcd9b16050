"""What sbatch says of a batch script: whether it takes it, and the value of every option it sets, component by component.

The sbatch that is spoken for is Slurm 22.05 with GPUs and shards. Where it would stop, this stops: what it had shown before
stays shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.errors import UserError
from warpdeck.notation.directives import Component, components, script_fault, words_of
from warpdeck.notation.getopt import Reader
from warpdeck.notation.options import NONE, OPTIONAL, REQUIRED, SBATCH_22_05, Table
from warpdeck.notation.variables import SBATCH_VARIABLES, is_on

from .checks import check
from .fields import ENVIRONMENT, LINE, Fields, Place
from .gpurules import check_gpus
from .refusal import VALUE_EXIT, Refusal, invalid
from .values import set_value, show_value

EARLY = frozenset({"help", "quiet", "usage", "verbose", "version", "wrap"})
"""They count on a command line alone."""
SAME = {"tasks-per-node": "ntasks-per-node"}
LIMITS = frozenset(["CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS"])


class Given(NamedTuple):
    """An option and where it was given: the line, 0 outside of the script."""

    option: str
    text: str | None
    line: int


class Fault(NamedTuple):
    """A refusal: all that sbatch says, the line it is about (0: none), what to do, and sbatch's exit code."""

    words: list[str]
    line: int
    hint: str
    exit_code: int = 1


class Verdict(NamedTuple):
    """`shown` has the options of each component that sbatch got to show, `given` what was read."""

    shown: list[dict[str, str]]
    given: list[list[Given]]
    fault: Fault | None

    @property
    def accepted(self) -> bool:
        return self.fault is None


def judge(
    text: str, name: str, place: Place, *, words: Sequence[str] = (), known: Table = SBATCH_22_05
) -> Verdict:
    """`words` are the options of the command line. Any text has a verdict; nothing is raised."""
    verdict = Verdict([], [], None)
    fault = script_fault(text, name)
    if fault is not None:
        return verdict._replace(fault=Fault([f"error: {line}" for line in fault[0]], 0, fault[1]))
    fields = Fields()
    reading = _Reading(fields, name.rsplit("/", 1)[-1], place, known)
    try:
        for number, component in enumerate(components(text)):
            if number:
                fields.begin_component()
            reading.given = []
            verdict.given.append(reading.given)
            reading.directives(component)
            reading.variables()
            reading.command_line(words)
            reading.line = 0
            check(fields, place)
            reading.remember_hint()
            verdict.shown.append(shown(fields, known))
            check_rest(fields, place)
        _check_clusters(fields)
    except Refusal as error:
        return verdict._replace(fault=Fault(error.lines, reading.line, error.hint, error.exit_code or 1))
    return verdict


def shown(fields: Fields, known: Table) -> dict[str, str]:
    """The options that were given, with their canonical values."""
    return {
        name: show_value(fields, name)
        for name in sorted(known.options)
        if name in fields.given and name not in EARLY
    }


class _Reading:
    """Reads one component into the fields; `line` is where it is."""

    def __init__(self, fields: Fields, name: str, place: Place, known: Table) -> None:
        self._fields = fields
        self._name = name
        self._place = place
        self._known = known
        self._environ = dict(place.environ)
        self.given: list[Given] = []
        self.line = 0

    def directives(self, component: Component) -> None:
        try:
            pairs = list(words_of(component, lambda number: f"{self._name}: line {number}"))
        except UserError as error:
            raise Refusal(error.message, error.hint, level="fatal") from None
        words, lines = [word for word, _ in pairs], [line for _, line in pairs]
        rest = self._read(words, lines)
        if rest < len(words):
            self.line = lines[rest]
            raise Refusal(
                f"Invalid directive found in batch script: {words[rest]}", "quote values that hold blanks"
            )

    def command_line(self, words: Sequence[str]) -> None:
        self._read(words, [0] * len(words))

    def variables(self) -> None:
        """Those of the environment that stand for options."""
        self.line = 0
        for variable, option in SBATCH_VARIABLES:
            text = self._environ.get(variable)
            if text is None:
                continue
            if self._takes(option) == NONE and not is_on(text):
                self._fields.take_back(option)
            elif option not in EARLY:
                self.given.append(Given(option, text, 0))
                self._take(option, text, ENVIRONMENT)

    def remember_hint(self) -> None:
        """A hint that was taken is a variable of the components that follow."""
        if "hint" in self._fields.given:
            self._environ["SLURM_HINT"] = self._fields.hint

    def _read(self, words: Sequence[str], lines: Sequence[int]) -> int:
        reader = Reader(words, self._known)
        while True:
            self.line = lines[reader.at] if reader.at < len(lines) else self.line
            try:
                word = next(reader)
            except StopIteration:
                return reader.at
            except UserError as error:
                help_line = f'Try "{self._known.command} --help" for more information'
                raise Refusal(
                    help_line, error.hint, level="", more=(error.message,), exit_code=VALUE_EXIT
                ) from None
            if word.option in EARLY:
                continue
            self.given.append(Given(word.option, word.text, self.line))
            self._take(word.option, word.text, LINE)

    def _take(self, option: str, text: str | None, where: str) -> None:
        if text == "" and self._takes(option) == OPTIONAL:
            text = None
        name = SAME.get(option, option)
        try:
            set_value(self._fields, name, text, self._place)
        except Refusal as error:
            error.exit_code = error.exit_code or VALUE_EXIT
            raise
        self._fields.given[name] = where

    def _takes(self, option: str) -> str:
        """The halves of --switches have variables and are no options."""
        found = self._known.options.get(option)
        return REQUIRED if found is None else found.takes


def check_rest(fields: Fields, place: Place) -> None:
    """What sbatch refuses after it has shown the options. Raises Refusal."""
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


def _check_clusters(fields: Fields) -> None:
    """There is one cluster here, and no database of others."""
    name = fields.texts.get("clusters", fields.texts.get("cluster"))
    if name is not None:
        words = (
            f"'{name}' can't be reached now, or it is an invalid entry for --cluster.  "
            "Use 'sacctmgr list clusters' to see available clusters."
        )
        raise Refusal(words, "leave the option out", more=("error: Problem talking to database",))


def _is_readable(name: str, place: Place) -> bool:
    try:
        place.read_text(name)
    except OSError:
        return False
    return True
