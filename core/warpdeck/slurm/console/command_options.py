"""Command-line parser of the Slurm-compatible commands.

Each command has a table of options, which is read with getopt_long's rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from warpdeck.base.cluster import CLUSTER_NAME, other_cluster
from warpdeck.base.errors import UserError
from warpdeck.base.slurm_version import VERSION
from warpdeck.notation.options.getopt import parse_leading
from warpdeck.notation.options.option_table import NONE, OPTIONAL, REQUIRED, OptionTable, table
from warpdeck.notation.values.time_points import parse_moment

from .console import CommandError, Console

TAKES = {"": NONE, "=": REQUIRED, "?": OPTIONAL}
Words = list[tuple[str, str]]
EMPTY = ","
INVALID_TIME = "Invalid time specification (pos=0): "


class WordsError(CommandError):
    """An invalid command line.

    The message is printed without a prefix, and the command ends with `exit_code`.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message, exit_code=exit_code, bare=True)


def options(command: str, text: str, *, newer: str = "") -> OptionTable:
    """Return the option table of a command.

    `text` holds words such as `jobs=,j` (takes a value), `json` (takes none) and `steps?,s` (takes an
    optional value). `newer` holds options that came after Slurm 22.05.
    """
    found = {}
    for word in f"{text} {newer}".split():
        name, _, short = word.partition(",")
        bare = name.rstrip("=?")
        found[bare] = (short, TAKES[name[len(bare) :]])
    return table(command, found, newer={word.partition(",")[0].rstrip("=?") for word in newer.split()})


def handle_choices(found: Words, console: Console, choices: Mapping[str, Iterable[str]]) -> bool:
    """Handle --helpformat and similar options: `choices` holds the words that each of them prints.

    Return true if one of them was given.
    """
    for name, _ in found:
        if name in choices:
            console.print_lines(choices[name])
            return True
    return False


def read(words: list[str], known: OptionTable, *, advises: bool = True) -> tuple[Words, list[str]]:
    """Return the options as (long name, value) in order, and the remaining words. Raises WordsError.

    Parsing stops at the first word that is no option. With `advises`, the error mentions --help.
    """
    try:
        return parse_leading(words, known.command, known)
    except UserError as error:
        advice = f'\nTry "{known.command} --help" for more information' if advises else ""
        raise WordsError(f"{error.message}{advice}") from None


def read_anywhere(words: list[str], known: OptionTable) -> tuple[Words, list[str]]:
    """Like `read`, but options may follow or stand between other words, as in the accounting commands.

    Raises WordsError.
    """
    found: Words = []
    others: list[str] = []
    rest = list(words)
    while rest:
        more, rest = read(rest, known)
        found += more
        others += rest[:1]
        rest = rest[1:]
    return found, others


def read_lists(words: list[str], known: OptionTable, *, optional: Collection[str]) -> tuple[Words, list[str]]:
    """Parse a command line of squeue or sprio. Raises WordsError.

    The first word that is no option becomes the value of the first option in `optional` that was given, with
    or without a value. An option whose value is empty gets EMPTY, which is not the same as an option that was
    not given.
    """
    found, rest = read_anywhere(
        [word + EMPTY if _is_empty(word, optional) else word for word in words], known
    )
    given = {name for name, _ in found}
    for option in optional if rest else ():
        if option in given:
            return [*found, (option, rest[0] or EMPTY)], rest[1:]
    return found, rest


def _is_empty(word: str, optional: Collection[str]) -> bool:
    """Check if the word is one of these options, or an abbreviation of one, with an empty value."""
    return (
        word.startswith("--") and word.endswith("=") and any(name.startswith(word[2:-1]) for name in optional)
    )


def reject_positional(rest: list[str], known: OptionTable, usage: str, console: Console) -> None:
    """Reject positional arguments. Raises WordsError."""
    if rest:
        print(usage, file=console.streams.out)
        raise WordsError(f"{known.command}: error: Unrecognized option: {rest[0]}")


def handle_help(found: Words, console: Console, *, help_text: str, usage: str = "") -> bool:
    """Handle --version, --usage and --help. Return true if one of them was given.

    Without `usage`, --usage prints the help, as in Slurm's accounting commands.
    """
    names = [name for name, _ in found]
    for name, text in (("version", VERSION), ("usage", usage or help_text), ("help", help_text)):
        if name in names:
            print(text.rstrip("\n"), file=console.streams.out)
            return True
    return False


def reject_format_and_long(given: Collection[str], command: str) -> None:
    """Check that -o and -l are not given together. Raises WordsError."""
    if "format" in given and "long" in given:
        sentence = "Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."
        raise WordsError(f"{command}: fatal: {sentence}")


def reported_time(text: str, now: float, console: Console) -> float | None:
    """Parse a time in the past. Return None if the text is empty or invalid.

    As in Slurm, an invalid time is reported and ignored.
    """
    try:
        return parse_moment(text, now, past=True) if text else None
    except UserError:
        console.streams.err.write(f"{INVALID_TIME}{text}\n")
        return None


CLUSTER_LINE = f"CLUSTER: {CLUSTER_NAME}"
"""Line above a table whose clusters were named with an option."""


def check_cluster(command: str, clusters: str | None) -> None:
    """Check that no cluster other than ours is named; None means that no cluster is named.

    Raises WordsError.
    """
    name = "" if clusters is None else other_cluster(clusters)
    if name or clusters == "":
        raise WordsError(
            f"{command}: error: No cluster '{name}' known by database.\n"
            f"{command}: error: '{name}' can't be reached now, or it is an invalid entry for --cluster.  "
            "Use 'sacctmgr list clusters' to see available clusters."
        )


def split_list(text: str) -> list[str]:
    """Split a comma-separated list and drop empty words."""
    return [word for word in text.split(",") if word]
