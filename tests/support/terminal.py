"""Run a command with its own terminal, read its output and type keys."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.home import Home
from tests.support.waiting import WAIT_S


class Terminal:
    """A command that runs at its own terminal."""

    def __init__(self, argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            argv, env=environ, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.shown = b""

    def until(self, words: str, *, timeout_s: float = WAIT_S) -> str:
        """Return the output up to and including `words`. The next call searches the output after them."""
        wanted = words.encode()
        deadline = time.monotonic() + timeout_s
        while wanted not in self.shown:
            assert time.monotonic() < deadline, f"no {words!r} in {self.shown!r}"
            if select.select([self.master], [], [], 1.0)[0]:
                try:
                    self.shown += os.read(self.master, 4096)
                except OSError as error:  # EIO: the command has ended
                    raise AssertionError(f"no {words!r} in {self.shown!r}") from error
        before, _, self.shown = self.shown.partition(wanted)
        return (before + wanted).decode("utf-8", "replace")

    def rest(self, *, timeout_s: float = WAIT_S) -> str:
        """Return all output until the command ends, and close the terminal."""
        deadline = time.monotonic() + timeout_s
        while True:
            assert time.monotonic() < deadline, f"no end of {self.shown!r}"
            if select.select([self.master], [], [], 1.0)[0]:
                try:
                    self.shown += os.read(self.master, 65536)
                except OSError:  # EIO: the command has ended
                    break
        self.close()
        return self.shown.decode()

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def ended(self) -> int:
        """Wait for the end of the command, and return its exit code."""
        return self.process.wait(WAIT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


class AtTerminal(Terminal):
    """`warpdeck ARGV` at a terminal. `prefix` is a command that runs it as another user."""

    def __init__(self, home: Home, *argv: str, prefix: Sequence[str] = ()) -> None:
        super().__init__(
            [*prefix, sys.executable, "-m", "warpdeck.cli.main", *argv],
            environ=home.environ,
            cwd=home.path.parent,
        )
