"""Runs Slurm's own srun or salloc as a child of the gateway, in the environment and the folder of a client."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from warpdeck.engines.slurm.commands import SlurmCommands

MAX_LINE_BYTES = 64 * 1024
END_S = 5.0
"""Seconds between the signals that end a command that nobody waits for any more."""


class Launcher:
    """A running srun or salloc. `name` is the prefix of its messages."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._name = name
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    async def wait(self) -> int:
        """Return the exit code, or the negative number of the signal that ended the command."""
        return await self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def signal(self, number: int) -> None:
        """Send a signal to the command, unless it has ended."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def end(self) -> None:
        """End the command: srun then ends its tasks, and salloc releases what it waits for.

        The command of salloc has a process group of its own, but it ends with its input.
        """
        self.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            try:
                async with asyncio.timeout(END_S):
                    await self.wait()
                return
            except TimeoutError:
                continue

    def without_name(self, line: bytes) -> str:
        """Return a line of the command's messages without its own name, which the client adds again."""
        return line.decode(errors="replace").rstrip("\n").removeprefix(f"{self._name}: ")


async def start(
    commands: SlurmCommands, words: Sequence[str], *, environ: Mapping[str, str], cwd: str
) -> Launcher:
    """Start a command of Slurm with a client's environment. Raises UserError."""
    name = words[0]
    argv = [commands.program(name), *words[1:]]
    return Launcher(
        await commands.connect(argv, environ={**commands.site_environ(), **environ}, cwd=cwd), name
    )
