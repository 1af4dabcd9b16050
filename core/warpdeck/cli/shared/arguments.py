"""argparse for verbs: help that shows examples, and mistakes told as everything else is, in one sentence with a next step."""

from __future__ import annotations

import argparse
import os

from warpdeck.base.errors import UserError
from warpdeck.base.paths import default_paths
from warpdeck.client.blocking_client import SyncClient

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: a verb takes longer to import it than to be answered
    from typing import NoReturn

USAGE_EXIT = 2
"""The exit code of a command line that is not understood."""
USUAL_COLUMNS = 80


class _Help(argparse.RawDescriptionHelpFormatter):
    """One that knows how wide the terminal is: argparse makes one for every option it is told of, and would import archives'
    compression to find out, which takes longer than the rest of a parser."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """As shutil tells it: $COLUMNS, else the terminal's, else the usual."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(1).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


class Arguments(argparse.ArgumentParser):
    """A verb's arguments. `examples`: command lines, one each."""

    def __init__(self, prog: str = "", *, examples: tuple[str, ...] = (), **settings: object) -> None:
        epilog = "examples:\n" + "\n".join(f"  {line}" for line in examples) if examples else None
        settings.setdefault("formatter_class", _Help)
        super().__init__(prog=prog, epilog=epilog, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raises UserError."""
        see = f"see `{self.prog} --help`"
        _, found, words = message.partition("unrecognized arguments: ")
        if not found:
            raise UserError(f"{self.prog}: {message}", see, exit_code=USAGE_EXIT)
        import difflib  # for this alone

        word = words.split()[0]
        near = difflib.get_close_matches(word.partition("=")[0], list(self._option_string_actions), n=1)
        hint = f"did you mean {near[0]}?" if near and word.startswith("-") else see
        kind = "unknown option" if word.startswith("-") else "one word too many:"
        raise UserError(f"{self.prog}: {kind} {word}", hint, exit_code=USAGE_EXIT)


def run_sub_verb(parser: Arguments, words: list[str]) -> int:
    """Runs what the sub-verb's parser set as `run`, with a client; the exit code."""
    args = parser.parse_args(words)
    with SyncClient.connect(default_paths()) as client:
        return int(args.run(client, args))
