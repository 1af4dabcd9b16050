"""The command lines of Slurm's viewers: a table of options each, read by getopt_long's habits."""

from __future__ import annotations

from collections.abc import Collection

from warpdeck.base.cluster import CLUSTER_NAME, other_cluster
from warpdeck.base.errors import UserError
from warpdeck.base.slurm_version import VERSION
from warpdeck.notation.options.getopt import parse_leading
from warpdeck.notation.options.options import NONE, OPTIONAL, REQUIRED, OptionTable, table

from .console import CommandError, Console

TAKES = {"": NONE, "=": REQUIRED, "?": OPTIONAL}
Words = list[tuple[str, str]]
EMPTY = ","


class WordsError(CommandError):
    """The command line cannot be read. Printed as it is, and the command ends with `exit_code`."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message, exit_code=exit_code, bare=True)


def options(command: str, text: str) -> OptionTable:
    """The table of a command: words such as `jobs=,j` (a value), `json` (none), `steps?,s` (perhaps one)."""
    found = {}
    for word in text.split():
        name, _, short = word.partition(",")
        bare = name.rstrip("=?")
        found[bare] = (short, TAKES[name[len(bare) :]])
    return table(command, found)


def read(words: list[str], known: OptionTable) -> tuple[Words, list[str]]:
    """(long option, value) in order, and the words that are none. Raises WordsError."""
    try:
        return parse_leading(words, known.command, known)
    except UserError as error:
        raise WordsError(f'{error.message}\nTry "{known.command} --help" for more information') from None


def read_anywhere(words: list[str], known: OptionTable) -> tuple[Words, list[str]]:
    """The same where options may stand behind and between other words, as in the commands of accounting. Raises WordsError."""
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
    """The same of squeue and sprio: the first word that is no option is the value of the first of `optional` that was given, be
    it with a value or without. A list that is given and empty is EMPTY, which is not the same as none. Raises WordsError."""
    found, rest = read_anywhere(
        [word + EMPTY if _is_empty(word, optional) else word for word in words], known
    )
    given = {name for name, _ in found}
    for option in optional if rest else ():
        if option in given:
            return [*found, (option, rest[0] or EMPTY)], rest[1:]
    return found, rest


def _is_empty(word: str, optional: Collection[str]) -> bool:
    """Whether it is one of those options, or the beginning of its name, with a value that is empty."""
    return (
        word.startswith("--") and word.endswith("=") and any(name.startswith(word[2:-1]) for name in optional)
    )


def refuse_rest(rest: list[str], known: OptionTable, usage: str, console: Console) -> None:
    """Viewers take options alone. Raises WordsError."""
    if rest:
        print(usage, file=console.out)
        raise WordsError(f"{known.command}: error: Unrecognized option: {rest[0]}")


def is_informed(found: Words, console: Console, *, usage: str, help_text: str) -> bool:
    """Whether --version, --usage or --help was asked for, and answered."""
    names = [name for name, _ in found]
    for name, text in (("version", VERSION.strip()), ("usage", usage), ("help", help_text)):
        if name in names:
            print(text, file=console.out)
            return True
    return False


CLUSTER_LINE = f"CLUSTER: {CLUSTER_NAME}"
"""What viewers print above a table whose clusters were named."""


def only_ours(command: str, clusters: str | None) -> None:
    """There is one cluster; None is where none is named. Raises WordsError for another."""
    name = "" if clusters is None else other_cluster(clusters)
    if name or clusters == "":
        raise WordsError(
            f"{command}: error: No cluster '{name}' known by database.\n"
            f"{command}: error: '{name}' can't be reached now, or it is an invalid entry for --cluster.  "
            "Use 'sacctmgr list clusters' to see available clusters."
        )


def listed(text: str) -> list[str]:
    """The words of a list with commas; empty ones are none."""
    return [word for word in text.split(",") if word]
