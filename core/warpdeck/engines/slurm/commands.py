"""Runs Slurm's commands: with a time limit, with a limit on their output, and with errors in Slurm's words and ours.

A command runs as the user of the gateway, with the user's own Slurm configuration. Only the variables that change the
form of the output are set or removed.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import secrets
import shutil
import string
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import NamedTuple

from warpdeck.base.chunking import ROWS_A_TURN
from warpdeck.base.errors import UserError

from .reading.marked_table import Column, TableReader, format_argument

COMMAND_S = 60.0
"""Time limit of a command that reads. slurmctld may take 10 s for an answer, and a client library retries once."""
CHANGE_S = 120.0
"""Time limit of a command that changes something. It is longer, because its outcome is unknown when it is killed."""
MAX_OUTPUT_BYTES = 512 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
CHUNK_BYTES = 256 * 1024
LETTERS = string.ascii_letters + string.digits
MARK_LETTERS = 8
UNREACHABLE = "slurm_unreachable"
"""Code of the errors that say that Slurm does not answer now."""
_FORMS = (
    *("SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SPRIO_", "SBATCH_"),
    *("SALLOC_", "SCANCEL_"),
)
"""Variables that begin with these change what a command prints, submits or cancels, or which cluster it asks."""
_LOCAL = ("SQUEUE_LOCAL", "SINFO_LOCAL", "SACCT_LOCAL", "SCONTROL_LOCAL", "SPRIO_LOCAL")
"""Variables with which commands show this cluster only. Without them, a site with FederationParameters=fed_display would show
the jobs and nodes of all clusters of its federation, for one request more.
"""
_OURS = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "SLURM_BITSTR_LEN": "0", **dict.fromkeys(_LOCAL, "1")}
"""SLURM_BITSTR_LEN=0: squeue does not shorten lists of array tasks."""

TOKEN = "SLURM_JWT"
_SITE = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", TOKEN})
"""Variables with which the commands find Slurm."""

ENDED = "slurmctld has ended while it answered; warpdeck asks again by itself"
ADVICE = (
    # The first, because a refused connection to munge's socket is also "Connection refused".
    ("munge", "munge does not run on this machine; ask an administrator to start it"),
    ("Unable to contact slurm controller", "slurmctld is down or unreachable; warpdeck asks again by itself"),
    ("Resource temporarily unavailable", ENDED),
    ("Connection reset by peer", ENDED),
    ("Broken pipe", ENDED),
    ("Zero Bytes were transmitted", ENDED),
    ("Socket timed out", "slurmctld is overloaded or slow; warpdeck asks again by itself"),
    ("Connection refused", "slurmctld is not running on its host; warpdeck asks again by itself"),
    (
        "Protocol authentication error",
        "munge does not run on this machine or on slurmctld's; ask an administrator",
    ),
    ("Unable to establish", "slurm.conf is missing or wrong on this machine; run `sinfo` to check"),
    ("Slurm database", "slurmdbd is down; running jobs are not affected"),
    ("RPC rate limit", "slurmctld limits the requests of each user; warpdeck asks less often by itself"),
)
"""Texts of Slurm's errors that mean that Slurm itself does not work now, and what to do."""


class Output(NamedTuple):
    """How a command ended, and what it printed. Signals are negative."""

    code: int
    out: str
    err: str


Record = dict[str, str]
"""A record of a table: the values by our names of the columns, "" for no value."""


class SlurmCommands:
    """The commands of the Slurm that this user's PATH and configuration name."""

    def __init__(
        self, environ: Mapping[str, str] | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        source = os.environ if environ is None else environ
        kept = {name: value for name, value in source.items() if not name.startswith(_FORMS)}
        self.environ: Mapping[str, str] = kept | _OURS
        self._clock = clock
        self.last_took_s = 0.0
        """Run time of the last reading command, which shows the load of slurmctld."""

    def without_token(self) -> SlurmCommands:
        """Return the same commands with the usual authentication of the site, such as munge."""
        kept = {name: value for name, value in self.environ.items() if name != TOKEN}
        return SlurmCommands(kept, clock=self._clock)

    async def read(self, *argv: str) -> str:
        """Return the output of a command that reads. Raises UserError."""
        async with aclosing(self.pieces(argv)) as pieces:
            return "".join([text async for text in pieces])

    async def table(
        self, argv: Sequence[str], columns: Sequence[Column]
    ) -> AsyncGenerator[list[Record], None]:
        """Yield the records of a table that squeue prints, in small lists, so that a queue of 50,000 jobs needs little memory.

        Raises UserError or MalformedTable, the latter at the end.
        """
        mark = new_mark()
        pieces = self.pieces([*argv, "-O", format_argument(columns, mark)])
        async with aclosing(records_of(pieces, columns, mark)) as table:
            async for records in table:
                yield records

    async def accounting(self, argv: Sequence[str], columns: Sequence[Column]) -> list[Record]:
        """Return the records that sacct prints with these options. Raises UserError or MalformedTable."""
        mark = new_mark()
        reader = TableReader(columns, mark)
        records: list[Record] = []
        form = ",".join(column.field for column in columns)
        options = ["--noheader", "--parsable", f"--delimiter={mark}", f"--format={form}"]
        async with aclosing(self.pieces(["sacct", *options, *argv])) as pieces:
            async for text in pieces:
                records.extend(reader.feed(text))
        reader.close()
        return records

    async def change(self, argv: Sequence[str], *, data: bytes = b"", cwd: str | None = None) -> Output:
        """Run a command that changes something, and return how it ended. Raises UserError if it cannot be run.

        If its time is over, the command is killed and the outcome is unknown; the error says so.
        """
        process = await self._start(argv, cwd=cwd)
        try:
            async with asyncio.timeout(CHANGE_S):
                out, err = await process.communicate(data)
        except TimeoutError as error:
            raise UserError(
                f"{argv[0]} did not answer within {CHANGE_S:.0f} s; it is unknown whether it was carried out",
                "Look at the queue before you repeat it.",
                code=UNREACHABLE,
            ) from error
        finally:
            await _end(process)
        assert process.returncode is not None
        return Output(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    async def submit(
        self, argv: Sequence[str], *, environ: Mapping[str, str], cwd: str, out: int, err: int, keep_open: int
    ) -> int:
        """Run a command that submits a job with its own environment, and return its exit code.

        `out` and `err` are descriptors for its output, and it inherits the descriptor `keep_open`. If its time is over,
        it is killed; the error says so. If the caller is cancelled, it runs on. Raises UserError, and OSError if it cannot
        be run.
        """
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environ,
            cwd=cwd,
            pass_fds=(keep_open,),
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(CHANGE_S):
                return await process.wait()
        except TimeoutError as error:
            await _end(process)
            raise UserError(f"{argv[0]} did not answer within {CHANGE_S:.0f} s", code=UNREACHABLE) from error

    def program(self, name: str) -> str:
        """Return the absolute path of a command. Raises UserError."""
        found = shutil.which(name, path=self.environ.get("PATH"))
        if found is None:
            raise UserError(f"cannot find {name}", "Load Slurm's module, or add its commands to your PATH.")
        return os.path.abspath(found)

    async def pieces(self, argv: Sequence[str]) -> AsyncGenerator[str, None]:
        """Yield the output of a reading command in pieces. Raises UserError. If the caller stops early, the command is killed."""
        begun = self._clock()
        process = await self._start(argv)
        assert process.stdout is not None and process.stderr is not None and process.stdin is not None
        process.stdin.close()
        errors = asyncio.create_task(_bounded(process.stderr))
        deadline = asyncio.get_running_loop().time() + COMMAND_S
        try:
            async for text in _decoded(process.stdout, argv[0], deadline):
                yield text
            async with asyncio.timeout_at(deadline):
                error_text = await errors
                code = await process.wait()
        except TimeoutError as error:
            raise UserError(
                f"{argv[0]} did not answer within {COMMAND_S:.0f} s",
                "slurmctld is overloaded or down; warpdeck asks again by itself.",
                code=UNREACHABLE,
            ) from error
        finally:
            self.last_took_s = self._clock() - begun
            errors.cancel()
            await _end(process)
        if code:
            raise command_error(argv[0], error_text)

    async def connect(
        self, argv: Sequence[str], *, environ: Mapping[str, str], cwd: str = "/"
    ) -> asyncio.subprocess.Process:
        """Start a command that runs as long as a user needs its streams. Raises UserError.

        It leads a process group of its own, and the caller ends it.
        """
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environ,
                cwd=cwd,
                limit=CHUNK_BYTES,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise UserError(
                f"cannot run {argv[0]}: {error}", "Load Slurm's module, or add its commands to your PATH."
            ) from error

    def site_environ(self) -> dict[str, str]:
        """Return the variables with which the commands find Slurm."""
        return {name: value for name, value in self.environ.items() if name in _SITE}

    def plain_environ(self) -> dict[str, str]:
        """Return the environment without the variables of a job and without ours, for commands that start programs.

        A gateway may have been started inside a job, whose variables would become options of srun and salloc.
        """
        kept = {
            name: value
            for name, value in self.environ.items()
            if name not in _OURS and (not name.startswith("SLURM_") or name in _SITE)
        }
        return kept | {name: os.environ[name] for name in _OURS if name in os.environ}

    async def _start(self, argv: Sequence[str], *, cwd: str | None = None) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self.environ,
                cwd=cwd,
                limit=CHUNK_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(
                f"cannot run {argv[0]}: {error.strerror}",
                "Load Slurm's module, or add its commands to your PATH.",
            ) from error


def command_error(command: str, text: str) -> UserError:
    """Return the error for a command that failed: Slurm's words, then ours."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = (
        (lines[-1] if lines else "it failed without a message")
        .removeprefix(f"{command}: ")
        .removeprefix("error: ")
    )
    for part, advice in ADVICE:
        if part in text:
            return UserError(f"{command}: {words}", advice, code=UNREACHABLE)
    return UserError(f"{command}: {words}")


async def _decoded(stream: asyncio.StreamReader, command: str, deadline: float) -> AsyncGenerator[str, None]:
    """Yield the text of a stream. Raises TimeoutError at the deadline, and UserError for too much output."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    read_bytes = 0
    while True:
        async with asyncio.timeout_at(deadline):
            data = await stream.read(CHUNK_BYTES)
        if not data:
            break
        read_bytes += len(data)
        if read_bytes > MAX_OUTPUT_BYTES:
            raise UserError(f"{command} printed more than {MAX_OUTPUT_BYTES >> 20} MiB", "Select fewer jobs.")
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


async def records_of(
    pieces: AsyncGenerator[str, None], columns: Sequence[Column], mark: str
) -> AsyncGenerator[list[Record], None]:
    """Yield the records of a table that squeue prints. Raises MalformedTable at the end."""
    reader = TableReader(columns, mark)
    async with aclosing(pieces):
        async for text in pieces:
            records = reader.feed(text)
            while some := list(islice(records, ROWS_A_TURN)):
                yield some
    reader.close()


def new_mark() -> str:
    """Return a mark that no user can know in advance. It ends each field, so it is short."""
    return "Z" + "".join(secrets.choice(LETTERS) for _ in range(MARK_LETTERS))


async def _bounded(stream: asyncio.StreamReader) -> str:
    """Return the beginning of the text, and read the rest so that the command does not block."""
    kept = b""
    while data := await stream.read(CHUNK_BYTES):
        kept += data[: MAX_ERROR_BYTES - len(kept)]
    return kept.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a command that still runs, and wait for it."""
    if process.returncode is None:
        process.kill()
        await process.wait()
