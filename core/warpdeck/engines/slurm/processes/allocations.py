"""Allocations of Slurm's own salloc that a client holds.

salloc runs with a small shell as its command, which prints the environment that salloc has made, and then waits for one
line. The line is the exit code of the client's command. The keeper of salloc (`kept_commands`) holds the other end of this
shell's input. So the allocation survives the gateway, and ends if the keeper is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.ports.engine import Progress
from warpdeck_agent.wire.steps import EVERY_TASK, OUT, TASK_HEADER

from .kept_commands import KeptCommand

HOLDER = ("/bin/sh", "-c", r'env -0; printf "end\0"; read -r code || code=1; exit "$code"')
REVOKED = "has been revoked"
_END = b"end\0"
_GRANTED = "Granted job allocation "
_SILENT = ("Granted job allocation", "Nodes ", "Relinquishing job allocation")
"""Beginnings of messages that the client prints itself."""
_NAME = "salloc: "
MAX_ENVIRONMENT_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024
MAX_MESSAGES = 1000
"""Last messages of salloc that are kept for an error."""


class MessageLines:
    """The lines of salloc's messages, which arrive in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the complete lines without salloc's name, which the client adds again."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:MAX_LINE_BYTES]
        for line in lines:
            yield line.decode(errors="replace").removeprefix(_NAME)


class Heard(NamedTuple):
    """The output of salloc before it printed the variables of its allocation, or before it ended without one.

    `said` are its messages. `code` is its exit code, or None if it has an allocation.
    """

    environment: bytes
    said: list[str]
    code: int | None


@dataclass
class Allocation:
    """One running salloc that has an allocation."""

    kept: KeptCommand
    job_id: int
    env: dict[str, str] = field(default_factory=dict)
    """The variables that salloc gives to its command."""
    lines: MessageLines = field(default_factory=MessageLines)
    said: str = ""
    """The last message of salloc."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self) -> None:
        """Read the messages of salloc until it ends. It leaves its command running when Slurm takes the allocation.

        Raises UserError if its keeper was killed.
        """
        try:
            while True:
                match await self.kept.read():
                    case bytes() as piece:
                        self._note(*channel_of(piece))
                    case {"t": "exit"}:
                        self.kept.tell("forget")
                        return
        finally:
            self.kept.close()
            self.over.set()

    def _note(self, channel: int, data: bytes) -> None:
        for text in self.lines.feed(data) if channel != OUT else ():
            if not text.startswith(_SILENT):
                self.said = text
            if REVOKED in text:
                self.give_up()

    def give_up(self) -> None:
        """End salloc, because its client has left or Slurm has taken the allocation."""
        self._write(b"")

    def release(self, code: int) -> None:
        """Give the allocation back with the exit code of the client's command."""
        self._write(f"{code}\n".encode())

    def _write(self, data: bytes) -> None:
        """Write the only input of the shell that holds the allocation, or close its input."""
        self.kept.give(TASK_HEADER.pack(EVERY_TASK, 0, 0) + data)


def channel_of(piece: bytes) -> tuple[int, bytes]:
    """Return the channel and the data of a piece of output."""
    _, channel, _ = TASK_HEADER.unpack_from(piece)
    return channel, piece[TASK_HEADER.size :]


async def granted(kept: KeptCommand, environ: Mapping[str, str], progress: Progress) -> Allocation:
    """Wait until salloc has its allocation. Raises UserError in salloc's words."""
    lines = MessageLines()
    heard = await _hear(kept, lines, progress)
    if heard.code is not None:
        raise _refusal(kept, heard)
    text = heard.environment.decode(errors="surrogateescape")
    entries = [entry.partition("=") for entry in text.split("\0") if entry]
    made = {name: value for name, equals, value in entries if equals and environ.get(name) != value}
    env = {name: value for name, value in made.items() if name.startswith("SLURM_")}
    return Allocation(kept, int(env.get("SLURM_JOB_ID", "0")), env, lines)


async def left_alone(kept: KeptCommand, progress: Progress) -> int:
    """Wait until `salloc --no-shell` has its allocation, and return the job. Raises UserError in salloc's words.

    The job is 0 if salloc was told to be quiet. The keeper ends when its client has ended, so a repeated request makes no
    second allocation.
    """
    heard = await _hear(kept, MessageLines(), progress)
    if heard.code:
        raise _refusal(kept, heard)
    kept.close()
    numbers = [text.removeprefix(_GRANTED).strip() for text in heard.said if text.startswith(_GRANTED)]
    return next((int(number) for number in numbers if number.isdecimal()), 0)


def _refusal(kept: KeptCommand, heard: Heard) -> UserError:
    """Return the error for an salloc that has ended without an allocation: its errors, or else its last message."""
    kept.tell("forget")
    kept.close()
    first = next(
        (number for number, text in enumerate(heard.said) if text.startswith("error: ")), len(heard.said) - 1
    )
    return UserError("\n".join(f"{_NAME}{line}" for line in heard.said[max(0, first) :]), code=VERBATIM)


async def _hear(kept: KeptCommand, lines: MessageLines, progress: Progress) -> Heard:
    """Read until salloc has printed its environment or has ended. The messages of a waiting salloc are reported."""
    found, said, has_failed = b"", list[str](), False
    while True:
        match await kept.read():
            case bytes() as piece:
                channel, data = channel_of(piece)
                found += data if channel == OUT else b""
                for text in lines.feed(data) if channel != OUT else ():
                    said = [*said[-MAX_MESSAGES:], text]
                    has_failed |= text.startswith("error: ")
                    if not has_failed and not text.startswith(_SILENT):
                        await progress(text)
                if found.endswith(b"\0" + _END):
                    return Heard(found[: -len(_END)], said, None)
                if len(found) > MAX_ENVIRONMENT_BYTES:
                    raise UserError(
                        f"the environment of salloc is longer than {MAX_ENVIRONMENT_BYTES >> 20} MiB"
                    )
            case {"t": "exit", "code": int() as code, "signal": int() as number}:
                return Heard(found, said, code or number)


def without_command(words: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the options of salloc's command line."""
    options = [*words[: len(words) - len(command)]]
    return options[:-1] if options[-1:] == ["--"] else options
