"""State that the commands of one scontrol process share: display options, connection and exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.data_parser.output import JsonOutput, print_document


class Failed(Exception):
    """Error that is printed on standard error. The exit code is 1."""


class UnknownKeyword(Failed):
    """Unknown keyword; it is printed even with --quiet."""


class Missing(Failed):
    """Missing object; Slurm prints this error on standard output."""


class ScontrolSession:
    """One run of scontrol, for a single command or an interactive session."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.details = False
        self.oneliner = False
        self.json: JsonOutput | None = None
        self.quiet = False
        self.code = 0
        self.over = False
        self._client: SyncClient | None = None

    @contextlib.contextmanager
    def connect(self) -> Iterator[SyncClient]:
        """Provide the connection to the controller, which all commands share."""
        if self._client is None:
            self._client = self.console.controller.connect()
        yield self._client

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def complain(self, words: str) -> None:
        """Print an error and continue; the exit code will be 1."""
        self.code = 1
        if not self.quiet:
            self.console.streams.err.write(words + "\n")

    def misread(self, words: str) -> None:
        """Print an error even with --quiet, and continue; the exit code will be 1."""
        self.code = 1
        self.console.streams.err.write(words + "\n")

    def miss(self, words: str) -> None:
        """Print on standard output that something does not exist, and continue; the exit code will be 1."""
        self.code = 1
        if not self.quiet:
            self.console.print_lines([words])

    def print_json(self, value: dict[str, Any]) -> None:
        """Print the value as JSON or YAML with the metadata of Slurm's data_parser."""
        assert self.json is not None
        print_document(self.console, self.json, value, command=["scontrol", "show", *value, "--json"])
