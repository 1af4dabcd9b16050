"""argparse for verbs: help that shows examples, and mistakes told as everything else is, in one sentence with a next step."""

from __future__ import annotations

import argparse
import difflib
from typing import NoReturn

from warpdeck.api.sync import SyncClient
from warpdeck.errors import UserError
from warpdeck.paths import default_paths

USAGE_EXIT = 2
"""The exit code of a command line that is not understood."""


class Arguments(argparse.ArgumentParser):
    """A verb's arguments. `examples`: command lines, one each."""

    def __init__(self, prog: str = "", *, examples: tuple[str, ...] = (), **settings: object) -> None:
        epilog = "examples:\n" + "\n".join(f"  {line}" for line in examples) if examples else None
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(prog=prog, epilog=epilog, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raises UserError."""
        see = f"see `{self.prog} --help`"
        _, found, words = message.partition("unrecognized arguments: ")
        if not found:
            raise UserError(f"{self.prog}: {message}", see, exit_code=USAGE_EXIT)
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
