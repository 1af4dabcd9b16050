"""How options are read into Fields: variables of the environment first, then words, each value looked at as it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.foreign.option_mapping import Meaning
from warpdeck.notation.options.getopt import Reader
from warpdeck.notation.options.options import NONE, OPTIONAL, REQUIRED, Table
from warpdeck.notation.options.variables import is_on
from warpdeck.notation.values.exit_codes import PLAIN, exit_code
from warpdeck.notation.values.refusal import VALUE_EXIT, Refusal

from .option_fields import ENVIRONMENT, LINE, Fields, Place, Setter
from .values import set_value

EARLY = frozenset({"help", "quiet", "usage", "verbose", "version", "wrap"})
"""They count on a command line alone."""
SBATCHS: Mapping[str, Setter] = {}
"""sbatch has no setters but those of `values`."""
SAME = {"cpu_bind": "cpu-bind", "pack-group": "het-group", "tasks-per-node": "ntasks-per-node"}


def exit_of(error: Refusal, place: Place) -> int:
    """Where the error says none it is that of words which were read and do not go together."""
    if error.exit_code:
        return error.exit_code
    return PLAIN if error.level == "fatal" else exit_code(place.environ)


class Given(NamedTuple):
    """An option and where it was given: the line, 0 outside of the script."""

    option: str
    text: str | None
    line: int


class Reading:
    """Reads one component's options; `line` is where it is, `given` what was read."""

    def __init__(
        self, fields: Fields, place: Place, *, known: Table, own: Mapping[str, Setter] = SBATCHS
    ) -> None:
        self.fields = fields
        self._place = place
        self._known = known
        self._own = own
        self._environ = dict(place.environ)
        self._set: list[tuple[str, str]] | None = None
        """Those of the variables that are set; None: not looked up yet. A script may have a hundred thousand components."""
        self.given: list[Given] = []
        self.early: set[str] = set()
        """Those of EARLY that were among the words."""
        self.line = 0

    def variables(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Those of the environment that stand for options: (variable, option). Raises Refusal."""
        self.line = 0
        if self._set is None:
            self._set = [pair for pair in pairs if pair[0] in self._environ]
        for variable, option in self._set:
            text = self._environ[variable]
            is_flag = self._takes(option) == NONE
            if is_flag and not is_on(text):
                self.fields.take_back(option)
            elif option not in EARLY:
                self.given.append(Given(option, text, 0))
                self._take(option, None if is_flag else text, ENVIRONMENT)

    def remember_hint(self) -> None:
        """A hint that was taken is a variable of the components that follow."""
        if "hint" in self.fields.given:
            self._environ["SLURM_HINT"] = self.fields.hint
            self._set = None

    def words(self, words: Sequence[str], lines: Sequence[int]) -> int:
        """The options in front; where the first word stands that is none. Raises Refusal."""
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
                self.early.add(word.option)
                continue
            self.given.append(Given(word.option, word.text, self.line))
            self._take(word.option, word.text, LINE)

    def value_of(self, option: str) -> str | None:
        """What an option whose value is kept as it is has been given, None if nothing."""
        return self.fields.texts.get(option)

    def means(self, meaning: Meaning, line: int) -> None:
        """What a line that is no #SBATCH stands for. Raises Refusal."""
        self.line = line
        self.given.append(Given(meaning.option, meaning.text, line))
        if meaning.option in self._known.options:
            self._take(meaning.option, meaning.text, LINE)

    def _take(self, option: str, text: str | None, where: str) -> None:
        if text == "" and self._takes(option) == OPTIONAL:
            text = None
        name = SAME.get(option, option)
        try:
            if name in self._own:
                self._own[name](self.fields, text, self._place)
            else:
                set_value(self.fields, name, text, self._place)
        except Refusal as error:
            error.exit_code = error.exit_code or VALUE_EXIT
            raise
        self.fields.given[name] = where

    def _takes(self, option: str) -> str:
        """The halves of --switches have variables and are no options."""
        found = self._known.options.get(option)
        return REQUIRED if found is None else found.takes
