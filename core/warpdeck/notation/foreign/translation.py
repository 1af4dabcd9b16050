"""Translates the #BSUB and #PBS lines of a script, which sbatch also reads, into sbatch's options (compared
with 22.05).

The lines begin in column 0. They are read anywhere, also after commands, until more than a hundred lines that
are not comments have passed. The words of all lines of one kind form one command line. If a script has a
#BSUB line, even an empty one, its #PBS lines are ignored. Each component of a job gets all of them after its
#SBATCH lines, so they override these. Variables and the command line override them. --ignore-pbs, or
SBATCH_IGNORE_PBS, disables both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from warpdeck.notation.options.directives import OTHER_MARKS, Directive, directive_words
from warpdeck.notation.options.getopt import OptionReader, ParsedWord
from warpdeck.notation.options.option_table import OptionTable
from warpdeck.notation.values.slurm_error import SlurmError

from . import bsub, pbs
from .option_mapping import MappedOption, ValueOf

MAX_FOREIGN_LINES = 100
"""Maximum number of lines that are not comments before the scan ends."""
MAX_MAPPED_CHARS = 16 * 1024 * 1024
"""Maximum size of all translated options, over all components. Each component gets all of them, and a list
that grows with every line is stored each time.
"""
OPTION_CHARS = 160
"""The size that an option counts besides its value."""


class _Scheduler(NamedTuple):
    table: OptionTable
    prepared: Callable[[Sequence[str]], list[str]]
    """Function that transforms the words of the directives before they are parsed."""
    mapped_options: Callable[[ParsedWord, ValueOf], Iterator[MappedOption]]


_SCHEDULERS = {
    bsub.MARK: _Scheduler(bsub.OPTIONS, bsub.prepared, bsub.mapped_options),
    pbs.MARK: _Scheduler(pbs.OPTIONS, list, pbs.mapped_options),
}


class Translation:
    """The effective lines as one command line. `line` is the current line."""

    def __init__(self, lines: Sequence[Directive], name: str) -> None:
        """Parse the words of the lines. `name` is the script's name in errors. Raises SlurmError."""
        words, self._lines = directive_words(lines, name)
        self.mark = lines[0].mark
        self._scheduler = _SCHEDULERS[self.mark]
        self._words = self._scheduler.prepared(words)
        self.line = 0
        self._mapped_chars = 0

    def mapped_options(self, value_of: ValueOf) -> Iterator[MappedOption]:
        """Iterate over the options one by one. `value_of` is called for the current value of an option.
        Raises SlurmError.
        """
        reader = OptionReader(self._words, self._scheduler.table)
        while True:
            self.line = self._lines[reader.at] if reader.at < len(self._lines) else self.line
            try:
                word = next(reader)
            except StopIteration:
                break
            except SlurmError as error:
                words = "Unrecognized command line parameter ?"
                raise SlurmError(words, _HINT, more=(error.message,)) from None
            for mapped in self._scheduler.mapped_options(word, value_of):
                self._weigh(mapped)
                yield mapped
        if reader.at < len(self._words):
            raise SlurmError(f"Invalid argument: {self._words[reader.at]}", _HINT)

    def _weigh(self, mapped: MappedOption) -> None:
        self._mapped_chars += OPTION_CHARS + len(mapped.text or "")
        if self._mapped_chars > MAX_MAPPED_CHARS:
            words = f"the options of the {self.mark} lines are longer than {MAX_MAPPED_CHARS >> 20} MiB"
            raise SlurmError(words, "write them as #SBATCH, in the first component")


_HINT = "write it as #SBATCH, or disable such lines with #SBATCH --ignore-pbs"


def foreign_lines(text: str) -> list[Directive]:
    """Return the effective lines, which are all of one kind."""
    return next(filter(None, (_lines(text, mark) for mark in OTHER_MARKS if mark in text)), [])


def _lines(text: str, mark: str) -> list[Directive]:
    found, others = list[Directive](), 0
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith(mark):
            found.append(Directive(number, mark, line[len(mark) :]))
        elif not line.startswith("#"):
            others += 1
            if others > MAX_FOREIGN_LINES:
                break
    return found
