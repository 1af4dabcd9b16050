"""What the words of one scontrol know of each other: how to show, and the exit code so far."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.format import serial


class Failed(Exception):
    """What is said on standard error, as it stands; the exit code is 1."""


class Misread(Failed):
    """There is no such keyword: said with --quiet, too."""


class Missing(Failed):
    """The same of a thing that is not there, which Slurm says on standard output."""


class Session:
    """One scontrol, for one word or for a whole interactive round."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.details = False
        self.oneliner = False
        self.json = False
        self.quiet = False
        self.code = 0
        self.over = False
        self._client: SyncClient | None = None

    @contextlib.contextmanager
    def connect(self) -> Iterator[SyncClient]:
        """The controller; one connection for all words."""
        if self._client is None:
            self._client = self.console.connect()
        yield self._client

    def close(self) -> None:
        """Ends the connection, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def complain(self, words: str) -> None:
        """Says what is wrong, and goes on; the exit code will be 1."""
        self.code = 1
        if not self.quiet:
            self.console.err.write(words + "\n")

    def misread(self, words: str) -> None:
        """The same of a line that is none of ours, which --quiet does not hide."""
        self.code = 1
        self.console.err.write(words + "\n")

    def miss(self, words: str) -> None:
        """Says on standard output that something is not there, and goes on; the exit code will be 1."""
        self.code = 1
        if not self.quiet:
            self.console.print_lines([words])

    def print_json(self, value: dict[str, Any]) -> None:
        """In the frame of Slurm's data_parser."""
        serial.dump(self.console, value, yaml=False)
