"""Reads options into `Fields`: first environment variables, then words. Each value is checked as it is
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.foreign.option_mapping import Meaning
from warpdeck.notation.option_values.option_fields import (
    ENVIRONMENT,
    LINE,
    Fields,
    OptionSource,
    OptionText,
)
from warpdeck.notation.option_values.table import read_value, take_back
from warpdeck.notation.options.getopt import OptionReader
from warpdeck.notation.options.options import NONE, OPTIONAL, REQUIRED, OptionTable
from warpdeck.notation.options.variables import is_on
from warpdeck.notation.values.refusal import PLAIN, VALUE_EXIT, Refusal, exit_code

EARLY = frozenset({"help", "quiet", "usage", "verbose", "version", "wrap"})
"""Options that are honored only on a command line."""
SAME = {"cpu_bind": "cpu-bind", "pack-group": "het-group", "tasks-per-node": "ntasks-per-node"}


def exit_of(error: Refusal, place: OptionSource) -> int:
    """Return the exit code. If the error has none, it is that of inconsistent options."""
    if error.exit_code:
        return error.exit_code
    return PLAIN if error.level == "fatal" else exit_code(place.environ)


class Given(NamedTuple):
    """An option and the line where it was given; 0 if it was not in the script."""

    option: str
    text: str | None
    line: int


class Reading:
    """Reads the options of one component. `line` is the current line, `given` the options read so far."""

    def __init__(
        self, fields: Fields, place: OptionSource, *, known: OptionTable, is_launch: bool = False
    ) -> None:
        self.fields = fields
        self._place = place
        self._known = known
        self._is_launch = is_launch
        self._environ = dict(place.environ)
        self._set: list[tuple[str, str]] | None = None
        """The variables that are set; None until they are looked up. They are cached because a script may
        have a hundred thousand components.
        """
        self.given: list[Given] = []
        self.early: set[str] = set()
        """The options of EARLY that were among the words."""
        self.line = 0

    def variables(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Read the environment variables that set options, given as (variable, option). Raises Refusal."""
        self.line = 0
        if self._set is None:
            self._set = [pair for pair in pairs if pair[0] in self._environ]
        for variable, option in self._set:
            text = self._environ[variable]
            is_flag = self._takes(option) == NONE
            if is_flag and not is_on(text):
                take_back(self.fields, option)
            elif option not in EARLY:
                self.given.append(Given(option, text, 0))
                self._take(option, None if is_flag else text, ENVIRONMENT)

    def remember_hint(self) -> None:
        """Store a given hint as a variable for the components that follow."""
        if "hint" in self.fields.given:
            self._environ["SLURM_HINT"] = self.fields.hint
            self._set = None

    def words(self, words: Sequence[str], lines: Sequence[int]) -> int:
        """Read the leading options and return the position of the first word that is not an option. Raises
        Refusal.
        """
        reader = OptionReader(words, self._known)
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
        """Return the value of an option that is stored as text, or None."""
        return self.fields.texts.get(option)

    def means(self, meaning: Meaning, line: int) -> None:
        """Apply the meaning of a line of another scheduler. Raises Refusal."""
        self.line = line
        self.given.append(Given(meaning.option, meaning.text, line))
        if meaning.option in self._known.options:
            self._take(meaning.option, meaning.text, LINE)

    def _take(self, option: str, text: str | None, where: str) -> None:
        if text == "" and self._takes(option) == OPTIONAL:
            text = None
        name = SAME.get(option, option)
        try:
            value = OptionText(name, text, self._place)
            read_value(self.fields, value, is_launch=self._is_launch)
        except Refusal as error:
            error.exit_code = error.exit_code or VALUE_EXIT
            raise
        self.fields.given[name] = where

    def _takes(self, option: str) -> str:
        """Return the kind of value of an option. The two parts of --switches have variables but are not
        options.
        """
        found = self._known.options.get(option)
        return REQUIRED if found is None else found.takes
