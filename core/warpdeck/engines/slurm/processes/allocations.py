"""Allocations of Slurm's own salloc that a client holds.

salloc runs with a small shell as its command, which prints the environment that salloc has made, and then waits for one
line. The line is the exit code of the client's command. If the client leaves, or the gateway is killed, the input of the
shell ends and salloc releases the allocation. So no allocation is left without its owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from warpdeck.base.background_task import cancel
from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.ports.engine import Progress

from .launcher import Launcher

HOLDER = ("/bin/sh", "-c", r'env -0; printf "end\0"; read -r code || code=1; exit "$code"')
REVOKED = "has been revoked"
_END = b"end\0"
_GRANTED = "Granted job allocation "
_SILENT = ("Granted job allocation", "Nodes ", "Relinquishing job allocation")
"""Beginnings of messages that the client prints itself."""
MAX_ENVIRONMENT_BYTES = 16 * 1024 * 1024


@dataclass
class Allocation:
    """One running salloc that has an allocation."""

    launcher: Launcher
    env: dict[str, str]
    """The variables that salloc gives to its command."""
    said: str = ""
    """The last message of salloc."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def job_id(self) -> int:
        return int(self.env.get("SLURM_JOB_ID", "0"))

    async def watch(self) -> None:
        """Read the messages of salloc until it ends. It leaves its command running when Slurm takes the allocation."""
        while line := await self.launcher.stderr.readline():
            text = self.launcher.without_name(line)
            if not text.startswith(_SILENT):
                self.said = text
            if REVOKED in text:
                self.give_up()
        await self.launcher.wait()
        self.over.set()

    def give_up(self) -> None:
        """End salloc, because its client has left or Slurm has taken the allocation."""
        self.launcher.stdin.close()

    def release(self, code: int) -> None:
        """Give the allocation back with the exit code of the client's command."""
        with suppress(ConnectionError, RuntimeError):
            self.launcher.stdin.write(f"{code}\n".encode())


async def granted(launcher: Launcher, environ: Mapping[str, str], progress: Progress) -> Allocation:
    """Wait until salloc has its allocation. Raises UserError in salloc's words."""
    errors: list[str] = []
    telling = asyncio.create_task(_tell(launcher, progress, errors))
    try:
        text = await _environment(launcher)
    except BaseException:
        telling.cancel()
        await launcher.end()
        raise
    if text is None:
        await asyncio.wait([telling])
        raise UserError("\n".join(f"salloc: {line}" for line in errors), code=VERBATIM)
    await cancel(telling)
    entries = [entry.partition("=") for entry in text.split("\0") if entry]
    made = {name: value for name, equals, value in entries if equals and environ.get(name) != value}
    return Allocation(launcher, {name: value for name, value in made.items() if name.startswith("SLURM_")})


async def _environment(launcher: Launcher) -> str | None:
    """Return the environment that the holder prints, or None if salloc has ended without an allocation."""
    found = b""
    while data := await launcher.stdout.read(65536):
        found += data
        if found.endswith(b"\0" + _END):
            return found[: -len(_END)].decode(errors="surrogateescape")
        if len(found) > MAX_ENVIRONMENT_BYTES:
            break
    await launcher.end()
    return None


async def _tell(launcher: Launcher, progress: Progress, errors: list[str]) -> None:
    """Report the messages of a waiting salloc, and keep the errors."""
    while line := await launcher.stderr.readline():
        text = launcher.without_name(line)
        if text.startswith("error: ") or errors:
            errors.append(text)
        elif not text.startswith(_SILENT):
            await progress(text)


async def left_alone(launcher: Launcher, progress: Progress) -> int:
    """Wait until `salloc --no-shell` has its allocation, and return the job. Raises UserError in salloc's words.

    The job is 0 if salloc was told to be quiet.
    """
    said: list[str] = []
    try:
        while line := await launcher.stderr.readline():
            said.append(launcher.without_name(line))
            if not said[-1].startswith((*_SILENT, "error: ")):
                await progress(said[-1])
        code = await launcher.wait()
    except BaseException:
        await launcher.end()
        raise
    if code:
        raise UserError("\n".join(f"salloc: {text}" for text in said), code=VERBATIM)
    numbers = [text.removeprefix(_GRANTED).strip() for text in said if text.startswith(_GRANTED)]
    return next((int(number) for number in numbers if number.isdecimal()), 0)


def without_command(words: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the options of salloc's command line."""
    options = [*words[: len(words) - len(command)]]
    return options[:-1] if options[-1:] == ["--"] else options
