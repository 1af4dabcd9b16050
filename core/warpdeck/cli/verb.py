"""The type of a verb's row: its synopsis, and the functions that run it.

A row is data. `parser` parses a command line by it and prints the help, `verbs.completion` completes by it, and docs/generate
writes the reference from it. Example:

    WHY = Verb(
        "why",
        "Show why a job waits, and when it is expected to start.",
        (JOB, JSON),
        examples=("warpdeck why 12",),
        reads=True,
        ask=request("forecast", job="job"),
        show=_print_forecast,
    )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from warpdeck.base.paths import default_paths

from .arguments import Synopsis
from .shared.progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing argparse and typing takes longer than answering a verb
    from argparse import Namespace
    from typing import Any, TypeAlias

    from warpdeck.client.blocking_client import SyncClient

    from .arguments import Item

    Ask: TypeAlias = Callable[[SyncClient, Namespace], Any]


class Verb(Synopsis):
    """A row of the table of verbs.

    `run` runs the verb and returns its exit code. If the verb needs a connection to the controller, it has `ask` instead. With
    `show`, `ask` returns an answer. It is printed as JSON with --json, and by `show` otherwise; `failed` tells whether the exit
    code is 1. `waits` is the line that a terminal shows while the answer takes long. `check` is called before the connection is
    made.

    A verb that prints facts needs --json, unless `reads` is false. `internal` maps a first word that only our own scripts use to
    its function.
    """

    def __init__(
        self,
        name: str,
        about: str = "",
        arguments: Sequence[Item] = (),
        *,
        examples: tuple[str, ...] = (),
        notes: str = "",
        summary: str = "",
        reads: bool = True,
        check: Callable[[Any], None] | None = None,
        run: Callable[[Any], int] | None = None,
        ask: Ask | None = None,
        waits: str = "waiting for an answer ...",
        show: Callable[[Any, Namespace], None] | None = None,
        failed: Callable[[Any], bool] | None = None,
        subverbs: Sequence[Verb] = (),
        internal: Mapping[str, Callable[[list[str]], int]] | None = None,
    ) -> None:
        super().__init__(
            name,
            about,
            arguments,
            examples=examples,
            notes=notes,
            summary=summary,
            check=check,
            subverbs=subverbs,
        )
        self.subverbs: Sequence[Verb] = subverbs
        self.reads = reads and not subverbs
        self.run = run
        self.ask = ask
        self.waits = waits
        self.show = show
        self.failed = failed
        self.internal = internal or {}

    def main(self, words: list[str]) -> int:
        """Parse the arguments, run the verb, and return its exit code. Raises UserError."""
        if words and words[0] in self.internal:
            return self.internal[words[0]](words[1:])
        from .parser import parse

        args = parse(self, words)
        chosen: Verb = args.row
        if chosen.run is not None:
            return chosen.run(args)
        assert chosen.ask is not None, f"the row of {self.name} names no function"
        if chosen.show is None:
            with connected() as client:
                return int(chosen.ask(client, args))
        with progress(chosen.waits), connected() as client:
            answer = chosen.ask(client, args)
        if args.json:
            from warpdeck.base.output import print_json

            print_json(answer)
        else:
            chosen.show(answer, args)
        return int(chosen.failed is not None and chosen.failed(answer))


def connected() -> SyncClient:
    """Connect to the controller. It is started if none runs. Raises UserError."""
    from warpdeck.client.blocking_client import SyncClient

    paths = default_paths()
    with progress(f"waiting for the {paths.daemon} ..."):
        return SyncClient.connect(paths)


def request(kind: str, **fields: str) -> Ask:
    """Return the `ask` of a verb that sends one request. Each field of it is an attribute of the arguments."""
    return lambda client, args: client.call(kind, **{name: getattr(args, fields[name]) for name in fields})
