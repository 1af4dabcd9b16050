"""Command line parser with the rules of getopt_long: unique abbreviations, attached values of short options,
and `--` as end of options.

Errors have the wording of getopt, as in sbatch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.slurm_error import PLAIN, VALUE_EXIT, SlurmError

from .given_options import GivenOption, Options
from .option_table import NONE, OPTIONAL, REQUIRED, SBATCH, OptionTable

UNKNOWN = "unknown_option"
"""Code of the error about an unknown option, which might belong to a site's plugin."""
MISUSED = "misused_option"
"""Code of the error about any other word that getopt rejects."""


class ParsedWord(NamedTuple):
    """One option of a command line. `text` is None if it was given without a value."""

    option: str
    text: str | None
    typed: str
    """The word that contains the option's name, with its dashes."""


def parse_words(words: Iterable[str], where: str, known: OptionTable = SBATCH) -> list[tuple[str, str]]:
    """Return (long option, value) in order. Raises UserError, also for words that are not options."""
    found, rest = parse_leading(words, where, known)
    if rest:
        raise UserError(f"{where}: {rest[0]!r} is not an option", "quote values that contain blanks")
    return found


def parse_leading(
    words: Iterable[str], where: str, known: OptionTable
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return (long option, value) in order up to the first word that is not an option, and the words from
    there on. Raises UserError.
    """
    words = list(words)
    options, at = given_words(words, known, where)
    raise_error_of(options)
    return [(each.option, each.word) for each in options], words[at:]


def given_words(
    words: Sequence[str], known: OptionTable, where: str, *, lines: Sequence[int] = ()
) -> tuple[Options, int]:
    """Return the leading options, and the position of the first word that is not an option.

    `where` is the place of the words in messages, and `lines` are their lines in a script. An error of getopt is
    the last entry.
    """
    reader = OptionReader(words, known)
    found: Options = []
    line, place = 0, where
    while True:
        if reader.at < len(lines):
            line = lines[reader.at]
            place = f"{where}:{line}"
        try:
            option, text, typed = next(reader)
        except StopIteration:
            return found, reader.at
        except SlurmError as error:
            error.exit_code = VALUE_EXIT
            return [*found, GivenOption("", where=place, line=line, error=error)], len(words)
        found.append(GivenOption(option, text, place, line, typed=typed))


def raise_error_of(options: Iterable[GivenOption]) -> None:
    """Raise the first error of the options as a UserError that names the place."""
    for given in options:
        if given.error is not None:
            raise error_at(given, given.error)


def error_at(given: GivenOption, error: UserError) -> UserError:
    """Return an error about an option's value with the place of the option."""
    words = error.sentence(given.option, given.word) if isinstance(error, SlurmError) else error.message
    return UserError(f"{given.where}: {words}" if given.where else words, error.hint, code=error.code)


def parse_components(
    words: Iterable[str], where: str, known: OptionTable
) -> tuple[list[list[tuple[str, str]]], list[str]]:
    """Return the options of each component of a job, and the words after them. A colon separates components.
    Raises UserError.
    """
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


class OptionReader:
    """Iterates over the leading options. Afterwards `at` is the position where it stopped. Raises SlurmError
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

    def __next__(self) -> ParsedWord:
        """Return the next option. Raises SlurmError."""
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

    def _long(self, text: str) -> ParsedWord:
        _, equals, value = text.partition("=")
        option = full_name(text, self._known)
        takes = self._known.options[option].takes
        if takes == NONE and equals:
            raise _misused(f"option '--{option}' doesn't allow an argument", f"write --{option}", self._known)
        if not equals and takes == REQUIRED:
            value = self._next(f"option '--{option}' requires an argument")
        return ParsedWord(option, value if equals or takes == REQUIRED else None, f"--{text}")

    def _short(self) -> ParsedWord:
        letter, self._letters = self._letters[0], self._letters[1:]
        option = self._known.shorts.get(letter)
        if option is None:
            hint = f"see {self._known.command} --help"
            raise _misused(f"invalid option -- '{letter}'", hint, self._known)
        takes = self._known.options[option].takes
        value = ""
        if takes != NONE:
            value, self._letters = self._letters, ""
        if not value and takes == REQUIRED:
            return ParsedWord(option, self._next(f"option requires an argument -- '{letter}'"), f"-{letter}")
        return ParsedWord(option, value or None, f"-{letter}")

    def _next(self, words: str) -> str:
        if self.at >= len(self._words):
            raise _misused(words, "give it a value", self._known)
        self.at += 1
        return self._words[self.at - 1]


def _misused(words: str, hint: str, known: OptionTable, code: str = MISUSED) -> SlurmError:
    """Return an error of getopt, after which Slurm's commands refer to their help text."""
    help_line = f'Try "{known.command} --help" for more information'
    return SlurmError(words, hint, level="", after=(help_line,), exit_code=PLAIN, code=code)


def unrecognized(typed: str, known: OptionTable) -> SlurmError:
    """Return the error about an unknown option. `typed` is the word with its dashes."""
    return _misused(
        f"unrecognized option '{typed}'", near(typed[2:].partition("=")[0], known), known, UNKNOWN
    )


def full_name(text: str, known: OptionTable) -> str:
    """Return the option that a word without its dashes (NAME or NAME=VALUE) stands for. Raises SlurmError."""
    given = text.partition("=")[0]
    if given in known.options and not _is_short(given, known):
        return given
    matches = [name for name in known.options if name.startswith(given) and not _is_short(name, known)]
    old = [name for name in matches if not known.options[name].marks & {"newer", "plugin"}]
    matches = old or matches
    # For example, --user and --users are the same option.
    if len({name.removesuffix("s") for name in matches}) == 1:
        return matches[0]
    if matches:
        words = "".join(f" '--{name}'" for name in matches)
        words = f"option '--{text}' is ambiguous; possibilities:{words}"
        raise _misused(words, "write more letters of the name", known)
    raise unrecognized(f"--{text}", known)


def _is_short(name: str, known: OptionTable) -> bool:
    """Return whether the option exists only as a single letter."""
    return "short" in known.options[name].marks


def takes_next(word: str, known: OptionTable = SBATCH) -> bool:
    """Return whether the value of the option in this word is the next word. Raises SlurmError."""
    if word.startswith("--"):
        return "=" not in word and known.options[full_name(word[2:], known)].takes == REQUIRED
    option = known.shorts.get(word[1:2])
    return option is not None and known.options[option].takes == REQUIRED and len(word) == 2


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Return (sbatch's options, the command after them). Raises SlurmError."""
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
