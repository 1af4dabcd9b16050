"""Starts and finds the programs that keep Slurm's srun and salloc, one for each command of a client (`command_keeper`).

A keeper is no child of the gateway, so steps and allocations survive the gateway as they do with the native engine. Each
has a folder steps/NAME in the gateway's home. The name follows from the nonce of the request, so a repeated request joins
the command that runs already. A file with the number of the step, such as 12.0, or 12.allocation for salloc, leads a client
that comes back to its keeper.

srun tells nobody the number of its step. Its prolog (SLURM_PROLOG) runs on this machine just before the tasks start and
knows it, so srun gets a prolog that tells the keeper, and then runs the prolog of the site, if it has one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.programs import Programs
from warpdeck_agent.wire.frames import (
    JSON,
    WireError,
    data_frame,
    json_frame,
    parse_json,
    read_frame,
    split_data,
)

from . import command_keeper
from .command_keeper import ALREADY, Order

START_S = 30.0
"""Seconds that the program of a keeper may take until it listens. Its file is on a shared file system."""
DROP_BYTES = 256 * 1024
PIPE = "step"
_PROLOG = """\
#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_STEP_ID" 1<>{pipe}
{rest}
"""


def label_of(job_id: int) -> str:
    """Return the name of the file that leads to the keeper of an allocation."""
    return f"{job_id}.allocation"


class StepId(NamedTuple):
    """The number of a step. It is unknown, and the job is 0, if srun runs a prolog that its user has given."""

    job_id: int
    number: int

    @property
    def is_known(self) -> bool:
        return self.job_id > 0

    def __str__(self) -> str:
        return f"{self.job_id}.{self.number}"


class KeptCommand:
    """A connection to a keeper."""

    def __init__(self, folder: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.folder = folder
        self._reader = reader
        self._writer = writer
        self._reading = asyncio.Lock()

    async def read(self) -> dict[str, Any] | bytes:
        """Return the next message, or output with its header. Raises UserError if the keeper was killed."""
        try:
            async with self._reading:
                kind, payload = await read_frame(self._reader)
            return parse_json(payload) if kind == JSON else split_data(payload)[1]
        except (asyncio.IncompleteReadError, OSError, WireError) as error:
            raise gone() from error

    async def ended(self) -> None:
        """Wait until the keeper has ended. Its messages are dropped, and a reader must have been cancelled."""
        async with self._reading:
            with suppress(OSError):
                while await self._reader.read(DROP_BYTES):
                    continue

    def give(self, piece: bytes) -> None:
        """Send input with its header."""
        self._writer.write(data_frame(1, piece))

    def tell(self, kind: str, **fields: Any) -> None:
        """Send an order. It has no effect if the keeper has ended."""
        with suppress(OSError):
            self._writer.write(json_frame({"t": kind, **fields}))

    def close(self) -> None:
        """Leave the keeper alone. It keeps the command."""
        self._writer.close()


class Wanted(NamedTuple):
    """The command of a client: the name of Slurm's program with its words."""

    program: str
    words: Sequence[str]
    environ: Mapping[str, str]
    cwd: str
    has_input: bool
    client: int
    """The process of the client; 0 if it is unknown."""
    end_s: float
    """Seconds that the command has to end by itself."""
    tells_step: bool = False
    """Whether the number of its step is awaited. An srun whose user has given a prolog does not tell it."""
    has_terminal: bool = False
    size: tuple[int, int] = (0, 0)
    """The rows and columns of the client's terminal."""


@dataclass(frozen=True, kw_only=True)
class KeptCommands:
    """The keepers of a gateway. `folder` is the folder of their folders."""

    folder: str
    commands: SlurmCommands
    programs: Programs

    async def open(self, wanted: Wanted, nonce: str, *, site_prolog: str) -> KeptCommand:
        """Start a command, or join the one that an earlier gateway has started for the same request. Raises UserError."""
        name = hashlib.sha256(nonce.encode()).hexdigest()[:24] if nonce else secrets.token_hex(12)
        folder = os.path.join(self.folder, name)
        found = await self.join(folder)
        if found is not None:
            return found
        if await asyncio.to_thread(os.path.exists, os.path.join(folder, "started")):
            raise gone()
        try:
            await asyncio.to_thread(_make, folder, site_prolog, has_marker=wanted.tells_step)
        except OSError as error:
            raise UserError(
                f"cannot use {folder}: {error.strerror}", "free space, or check its permissions"
            ) from error
        await self._start(folder, wanted)
        found = await self.join(folder)
        if found is None:
            raise gone()
        return found

    async def join(self, folder: str, *, have: Mapping[str, str] | None = None) -> KeptCommand | None:
        """Connect to a keeper, or return None if there is none. `have` is the output that the client has by channel."""
        try:
            descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            # The path of a socket is limited to 107 bytes.
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}/socket")
        except OSError:
            return None
        finally:
            os.close(descriptor)
        kept = KeptCommand(folder, reader, writer)
        kept.tell("join", have=dict(have or {}))
        return kept

    def folder_of(self, step: str) -> str:
        """Return the folder of the keeper of a step or an allocation, or "" if there is none. It is called in a thread."""
        for folder in self.folders():
            if (
                os.path.exists(os.path.join(folder, step))
                or f"0.{int(os.path.basename(folder)[:7], 16)}" == step
            ):
                return folder
        return ""

    async def note_allocation(self, folder: str, job_id: int) -> None:
        """Note for later gateways that a keeper has the allocation of this job. On a full disk only the present one finds it."""
        with suppress(OSError):
            await asyncio.to_thread(Path(folder, label_of(job_id)).touch)

    def folders(self) -> list[str]:
        """Return the folders of all keepers, including killed ones."""
        with suppress(OSError):
            return [entry.path for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]
        return []

    async def _start(self, folder: str, wanted: Wanted) -> None:
        """Run the program of a keeper until it listens. Raises UserError."""
        environ = {**self.commands.site_environ(), **wanted.environ}
        if wanted.tells_step:
            environ["SLURM_PROLOG"] = os.path.join(folder, "prolog")
        order = Order(
            command=[self.commands.program(wanted.program), *wanted.words],
            environ=environ,
            has_input=wanted.has_input,
            terminal=["/bin/sh", await self.programs.run(), "ptytask"] if wanted.has_terminal else [],
            rows=wanted.size[0],
            cols=wanted.size[1],
            client=wanted.client,
            end_s=wanted.end_s,
        )
        argv = [sys.executable, "-m", command_keeper.__name__, folder]
        process = await self.commands.connect(argv, environ=dict(os.environ), cwd=wanted.cwd)
        try:
            async with asyncio.timeout(START_S):
                _, errors = await process.communicate(json.dumps(order._asdict()).encode())
        except TimeoutError as error:
            raise UserError(
                f"{wanted.program} was not started within {START_S:.0f} s", "repeat it"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode not in (0, ALREADY):
            shutil.rmtree(folder, ignore_errors=True)
            raise UserError(f"cannot start {wanted.program}: {errors.decode(errors='replace').strip()}")


def gone() -> UserError:
    """Return the error for a keeper that was killed."""
    return UserError(
        "the process that kept srun or salloc was killed, and the step or allocation with it",
        "see `warpdeck queue` for the state of the job",
    )


def _make(folder: str, site_prolog: str, *, has_marker: bool) -> None:
    """Make the folder of a keeper. Raises OSError."""
    os.makedirs(folder, 0o700, exist_ok=True)
    if not has_marker:
        return
    pipe, prolog = os.path.join(folder, PIPE), os.path.join(folder, "prolog")
    with suppress(FileExistsError):
        os.mkfifo(pipe, 0o600)
    rest = f'exec {shlex.quote(site_prolog)} "$@"' if site_prolog else ""
    with open(prolog, "w", encoding="utf-8") as file:
        file.write(_PROLOG.format(pipe=shlex.quote(pipe), rest=rest))
    os.chmod(prolog, 0o700)
