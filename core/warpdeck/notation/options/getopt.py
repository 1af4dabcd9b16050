"""Command line parser with the rules of getopt_long: unique abbreviations, attached values of short options,
and `--` as end of options.

Error messages also have getopt's wording, so that users find sbatch's messages here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError

from .options import NONE, OPTIONAL, REQUIRED, SBATCH, OptionTable

UNKNOWN = "unknown_option"
"""Code of the error about an unknown option, which might belong to a site's plugin."""
MISUSED = "misused_option"
"""Code of the error about any other word that getopt rejects."""


class Word(NamedTuple):
    """One option as given. `text` is None if it was given without a value."""

    option: str
    text: str | None


class Parsed(NamedTuple):
    """The options up to the first word that is not an option, and the words from there on."""

    words: list[Word]
    rest: list[str]


def parse_words(words: Iterable[str], where: str, known: OptionTable = SBATCH) -> list[tuple[str, str]]:
    """Return (long option, value) in order. Raises UserError, also for words that are not options."""
    found, rest = parse_leading(words, where, known)
    if rest:
        raise UserError(f"{where}: {rest[0]!r} is no option", "quote values that hold blanks")
    return found


def parse_leading(
    words: Iterable[str], where: str, known: OptionTable
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return (long option, value) in order up to the first word that is not an option, and the words from
    there on. Raises UserError.
    """
    try:
        parsed = getopt(list(words), known)
    except UserError as error:
        raise UserError(f"{where}: {error.message}", error.hint, code=error.code) from None
    return [(word.option, word.text or "") for word in parsed.words], parsed.rest


def parse_components(
    words: Iterable[str], where: str, known: OptionTable
) -> tuple[list[list[tuple[str, str]]], list[str]]:
    """Return the same for each component of a job. A colon separates components."""
    found, rest = parse_leading(words, where, known)
    parts = [found]
    while rest and rest[0] == ":":
        found, rest = parse_leading(rest[1:], where, known)
        parts.append(found)
    return parts, rest


def parse_anywhere(
    words: Sequence[str], where: str, known: OptionTable
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return (long option, value) in order, and all other words, which may be mixed with the options. Raises
    UserError.

    This is the behavior of getopt_long for commands that do not run another program.
    """
    reader = OptionReader(words, known)
    found: list[tuple[str, str]] = []
    others: list[str] = []
    try:
        while True:
            at = reader.at
            word = next(reader, None)
            if word is not None:
                found.append((word.option, word.text or ""))
            elif at >= len(words) or words[at] == "--":
                return found, [*others, *words[reader.at :]]
            else:
                others.append(words[at])
                reader.at = at + 1
    except UserError as error:
        raise UserError(f"{where}: {error.message}", error.hint, code=error.code) from None


def getopt(words: Sequence[str], known: OptionTable) -> Parsed:
    """Return the leading options and the rest. Raises UserError with getopt's messages."""
    reader = OptionReader(words, known)
    found = list(reader)
    return Parsed(found, list(words[reader.at :]))


class OptionReader:
    """Iterates over the leading options. Afterwards `at` is the position where it stopped. Raises UserError
    with getopt's messages.

    Options are parsed one by one, so that an invalid early value can be reported before a later word is
    parsed.
    """

    def __init__(self, words: Sequence[str], known: OptionTable) -> None:
        self._words = words
        self._known = known
        self._letters = ""
        self.at = 0

    def __iter__(self) -> OptionReader:
        return self

    def __next__(self) -> Word:
        """Return the next option. Raises UserError."""
        if self._letters:
            return self._short()
        if self.at >= len(self._words):
            raise StopIteration
        word = self._words[self.at]
        if word == "--":
            self.at += 1
            raise StopIteration
        if not word.startswith("-") or word == "-":
            raise StopIteration
        self.at += 1
        if word.startswith("--"):
            return self._long(word[2:])
        self._letters = word[1:]
        return self._short()

    def _long(self, text: str) -> Word:
        _, equals, value = text.partition("=")
        option = full_name(text, self._known)
        takes = self._known.options[option].takes
        if takes == NONE and equals:
            raise UserError(
                f"option '--{option}' doesn't allow an argument", f"write --{option}", code=MISUSED
            )
        if equals or takes != REQUIRED:
            return Word(option, value if equals else None)
        return Word(option, self._next(f"option '--{option}' requires an argument"))

    def _short(self) -> Word:
        letter, self._letters = self._letters[0], self._letters[1:]
        option = self._known.shorts.get(letter)
        if option is None:
            raise UserError(
                f"invalid option -- '{letter}'", f"see {self._known.command} --help", code=MISUSED
            )
        takes = self._known.options[option].takes
        if takes == NONE:
            return Word(option, None)
        value, self._letters = self._letters, ""
        if value or takes == OPTIONAL:
            return Word(option, value or None)
        return Word(option, self._next(f"option requires an argument -- '{letter}'"))

    def _next(self, words: str) -> str:
        if self.at >= len(self._words):
            raise UserError(words, "give it a value", code=MISUSED)
        self.at += 1
        return self._words[self.at - 1]


def full_name(text: str, known: OptionTable) -> str:
    """Return the option that a word without its dashes (NAME or NAME=VALUE) stands for. Raises UserError."""
    given = text.partition("=")[0]
    if given in known.options and not _is_short(given, known):
        return given
    matches = [name for name in known.options if name.startswith(given) and not _is_short(name, known)]
    old = [name for name in matches if not known.options[name].marks & {"newer", "plugin"}]
    # For example, --user and --users are the same option.
    if len({name.removesuffix("s") for name in old or matches}) == 1:
        return (old or matches)[0]
    if matches:
        words = "".join(f" '--{name}'" for name in matches)
        raise UserError(
            f"option '--{text}' is ambiguous; possibilities:{words}", "write more of it", code=MISUSED
        )
    raise UserError(f"unrecognized option '--{text}'", near(given, known), code=UNKNOWN)


def _is_short(name: str, known: OptionTable) -> bool:
    """Return whether the option exists only as a single letter."""
    return "short" in known.options[name].marks


def takes_next(word: str, known: OptionTable = SBATCH) -> bool:
    """Return whether the option's value is the next word. Raises UserError."""
    if word.startswith("--"):
        return "=" not in word and known.options[full_name(word[2:], known)].takes == REQUIRED
    option = known.shorts.get(word[1:2])
    return option is not None and known.options[option].takes == REQUIRED and len(word) == 2


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Return (sbatch's options, the command after them). Raises UserError."""
    at = 0
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        if words[at] == "--":
            return words[:at], words[at + 1 :]
        at += 2 if takes_next(words[at]) else 1
    return words[:at], words[at:]


def as_word(option: str, text: str, known: OptionTable) -> str:
    """Return the option as one word of a command line. An empty optional value is left out."""
    takes = known.options[option].takes
    return f"--{option}" if takes == NONE or (takes == OPTIONAL and not text) else f"--{option}={text}"


def near(given: str, known: OptionTable) -> str:
    """Return a hint for an unknown option, which lists options with similar names."""
    names = difflib.get_close_matches(given, list(known.options), n=3)
    if not names:
        return f"see {known.command} --help"
    return "did you mean " + ", ".join(f"--{name}" for name in names) + "?"
