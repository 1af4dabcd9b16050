"""The #BSUB and #PBS lines of a script, which sbatch reads too, as the options that they stand for (measured on 22.05).

They begin in column 0 and are read wherever they stand, behind commands too, until over a hundred lines have passed that are no
comments. The words of all lines of a kind are one command line. A script that has a #BSUB line, be it a bare one, has its #PBS
lines passed over. Each component of a job gets all of them, after its #SBATCH lines, which they therefore outrank; they yield to
variables and to the command line. --ignore-pbs, or SBATCH_IGNORE_PBS, passes over both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import OTHER_MARKS, Directive, words_of
from warpdeck.notation.options.getopt import Reader, Word
from warpdeck.notation.options.options import Table
from warpdeck.notation.options.variables import is_on
from warpdeck.notation.values.refusal import Refusal

from . import bsub, pbs
from .option_mapping import Meaning, ValueOf

MAX_OTHER_LINES = 100
"""That are no comments, before the scan ends."""
IGNORE = "ignore-pbs"
MAX_MEANT_CHARS = 16 * 1024 * 1024
"""Of what the lines mean, over all components: each gets all of them, and a list that grows with every line is kept each time."""
OPTION_CHARS = 160
"""What an option counts beside its value."""


class _Language(NamedTuple):
    table: Table
    prepared: Callable[[Sequence[str]], list[str]]
    """What becomes of the words before they are read."""
    meanings: Callable[[Word, ValueOf], Iterator[Meaning]]


_LANGUAGES = {
    bsub.MARK: _Language(bsub.OPTIONS, bsub.prepared, bsub.meanings),
    pbs.MARK: _Language(pbs.OPTIONS, list, pbs.meanings),
}


class Translation:
    """The lines that count, as one command line. `line` is where it is being read."""

    def __init__(self, language: _Language, lines: Sequence[Directive], where: Callable[[int], str]) -> None:
        """`where` names a line in errors. Raises UserError."""
        pairs = list(words_of(lines, where))
        self.mark = lines[0].mark
        self._language = language
        self._words = language.prepared([word for word, _ in pairs])
        self._lines = [line for _, line in pairs]
        self.line = 0
        self._meant_chars = 0

    def meanings(self, value_of: ValueOf) -> Iterator[Meaning]:
        """One after the other: `value_of` is asked for what an option has by then. Raises Refusal."""
        reader = Reader(self._words, self._language.table)
        while True:
            self.line = self._lines[reader.at] if reader.at < len(self._lines) else self.line
            try:
                word = next(reader)
            except StopIteration:
                break
            except UserError as error:
                words = "Unrecognized command line parameter ?"
                raise Refusal(words, _HINT, more=(error.message,)) from None
            for meaning in self._language.meanings(word, value_of):
                self._weigh(meaning)
                yield meaning
        if reader.at < len(self._words):
            raise Refusal(f"Invalid argument: {self._words[reader.at]}", _HINT)

    def _weigh(self, meaning: Meaning) -> None:
        self._meant_chars += OPTION_CHARS + len(meaning.text or "")
        if self._meant_chars > MAX_MEANT_CHARS:
            words = f"what the {self.mark} lines mean is over {MAX_MEANT_CHARS >> 20} MiB long"
            raise Refusal(words, "write them as #SBATCH, in the first component")


_HINT = "write it as #SBATCH, or pass over such lines with #SBATCH --ignore-pbs"


def translation(text: str, where: Callable[[int], str]) -> Translation | None:
    """None where the script has no such lines. Raises UserError for words that cannot be told apart."""
    lines = lines_of_others(text)
    return Translation(_LANGUAGES[lines[0].mark], lines, where) if lines else None


def lines_of_others(text: str) -> list[Directive]:
    """The lines that count, of the one kind that does."""
    return next(filter(None, (_lines(text, mark) for mark in OTHER_MARKS if mark in text)), [])


def _lines(text: str, mark: str) -> list[Directive]:
    found, others = list[Directive](), 0
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith(mark):
            found.append(Directive(number, mark, line[len(mark) :]))
        elif not line.startswith("#"):
            others += 1
            if others > MAX_OTHER_LINES:
                break
    return found


def is_ignored(environ: Mapping[str, str], words: Sequence[str], known: Table) -> bool:
    """Whether a variable or the command line says so; the script may, too."""
    if "SBATCH_IGNORE_PBS" in environ and is_on(environ["SBATCH_IGNORE_PBS"]):
        return True
    try:
        return any(word.option == IGNORE for word in Reader(words, known))
    except UserError:
        return False  # told where the words are read
