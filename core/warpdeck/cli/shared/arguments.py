"""A variant of argparse for verbs. Help shows examples, and mistakes become a UserError with a next step."""

from __future__ import annotations

import argparse
import os

from warpdeck.base.errors import UserError
from warpdeck.base.paths import default_paths
from warpdeck.client.blocking_client import SyncClient

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from typing import NoReturn

USAGE_EXIT = 2
"""Exit code for a wrong command line."""
USUAL_COLUMNS = 80


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help formatter that gets the width of the terminal.

    argparse creates a formatter for each option. Without a width each one imports shutil with its compression
    modules, which takes longer than the rest of the parser.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Return the width as `shutil.get_terminal_size` does: $COLUMNS, else the terminal's, else the default."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(1).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


class Arguments(argparse.ArgumentParser):
    """The argument parser of a verb. `examples` contains one command line per entry."""

    def __init__(self, prog: str = "", *, examples: tuple[str, ...] = (), **settings: object) -> None:
        epilog = "examples:\n" + "\n".join(f"  {line}" for line in examples) if examples else None
        settings.setdefault("formatter_class", _Help)
        super().__init__(prog=prog, epilog=epilog, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise UserError for a wrong command line."""
        see = f"see `{self.prog} --help`"
        _, found, words = message.partition("unrecognized arguments: ")
        if not found:
            raise UserError(f"{self.prog}: {message}", see, exit_code=USAGE_EXIT)
        import difflib  # Imported here, because only this function needs it.

        word = words.split()[0]
        near = difflib.get_close_matches(word.partition("=")[0], list(self._option_string_actions), n=1)
        hint = f"did you mean {near[0]}?" if near and word.startswith("-") else see
        kind = "unknown option" if word.startswith("-") else "unexpected argument"
        raise UserError(f"{self.prog}: {kind} {word}", hint, exit_code=USAGE_EXIT)


def run_sub_verb(parser: Arguments, words: list[str]) -> int:
    """Run the function that the sub-verb's parser set as `run`, with a client, and return the exit code."""
    args = parser.parse_args(words)
    with SyncClient.connect(default_paths()) as client:
        return int(args.run(client, args))
