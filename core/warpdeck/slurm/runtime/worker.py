"""Worker process that runs the Slurm-compatible commands of users' shells and of job processes.

The process has imported everything; each command runs in a fork of it. The controller sends two sockets. Over
one, the command exchanges output and files with its caller. The other leads to the controller's own socket,
where the command has exactly the rights of its caller.

A fork takes a small fraction of the time of a new interpreter. It has no rights, no files, and limits on time
and memory, because it processes a user's data. The next fork is made while the last command runs, so it is
ready before it is needed.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
import time
import traceback
from typing import Any

from warpdeck._version import __version__
from warpdeck.base.errors import RESTART, UserError
from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.command_table import COMMANDS
from warpdeck.slurm.console.console import Console, ControllerAccess, CutOff, StandardStreams
from warpdeck_agent.wire.frames import (
    DATA_CHUNK_BYTES,
    JSON,
    FrameDecoder,
    data_frame,
    json_frame,
    parse_json,
)

from .commands import run

CHANNEL_FD = 0
"""The controller's channel is the standard input of this process."""
LOOK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)
CPU_S = 300
MEMORY_BYTES = 2 * 1024**3
"""Limit of the address space. A listing of 100,000 rows takes a third of it."""
OPEN_FILES = 64
NOBODY = 65_534
STREAM = 0
"""Number of the only stream on these sockets.

The first byte of a piece distinguishes standard output from standard error.
"""
OUT, ERR = b"\1", b"\2"
PIECE_BYTES = DATA_CHUNK_BYTES - 1
LOST_EXIT = 1
GARBAGE = 200_000
"""Number of allocated objects before a command runs its first garbage collection.

Most commands end before, and rows under construction contain no garbage.
"""
MAX_BUG_CHARS = 8000


class CommandCaller:
    """Connection to the caller of a command, which prints the output and reads files for the command."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._decoder = FrameDecoder()
        self.request = self._next()

    def write(self, channel: bytes, data: bytes) -> None:
        """Send output to the caller. Raises OSError if the caller is gone."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            self._link.sendall(data_frame(STREAM, channel + bytes(view[start : start + PIECE_BYTES])))

    def read(self, path: str, size: int, *, line: bool = False) -> bytes:
        """Read up to `size` bytes of a file of the caller, or a line of it. Raises OSError."""
        self._link.sendall(json_frame({"t": "read", "path": path, "size": size, "line": line}))
        said = self._next()
        if said["error"]:
            raise OSError(said["error"], os.strerror(said["error"]), path)
        return str(said["data"]).encode("latin-1")

    def record(self, job: int, folder: str) -> None:
        """Ask the caller's recorder to take a snapshot of the directory. The caller reports its errors."""
        self._link.sendall(json_frame({"t": "record", "job": job, "folder": folder}))

    def mark_idle(self) -> None:
        """Declare that the command lasts long and works little from here on.

        Other commands need not wait for it then.
        """
        self._link.sendall(json_frame({"t": "lingers"}))

    def wait_for_job(self, job: int) -> None:
        """Declare that from here on the command only waits for the end of this job."""
        self._link.sendall(json_frame({"t": "awaits", "job": job}))

    def cut_off(self) -> None:
        """Report that the controller went away from a command that only waits."""
        self._link.sendall(json_frame({"t": "again"}))

    def end(self, code: int) -> None:
        """Send the exit code."""
        self._link.sendall(json_frame({"t": "exit", "code": code}))

    def tell_bug(self, text: str) -> None:
        """Send the text of an internal error for the controller's log."""
        self._link.sendall(json_frame({"t": "bug", "text": text}))

    def _next(self) -> dict[str, Any]:
        while True:
            data = self._link.recv(1 << 18)
            if not data:
                raise ConnectionResetError("the caller has left")
            for kind, payload in self._decoder.feed(data):
                assert kind == JSON
                return parse_json(payload)


class Printed(io.RawIOBase):
    """Standard output or standard error of a command."""

    def __init__(self, caller: CommandCaller, channel: bytes) -> None:
        super().__init__()
        self._caller = caller
        self._channel = channel

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._caller.write(self._channel, bytes(data))
        return len(data)


class Typed(io.RawIOBase):
    """Standard input of a command, read line by line."""

    def __init__(self, caller: CommandCaller) -> None:
        super().__init__()
        self._caller = caller

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        line = self._caller.read("-", len(buffer), line=True)
        buffer[: len(line)] = line
        return len(line)


def main() -> int:
    """Serve commands until the controller closes the channel."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps the forks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=os.dup(CHANNEL_FD))
    os.dup2(os.open(os.devnull, os.O_RDWR), CHANNEL_FD)
    _preload()
    gc.collect()
    gc.freeze()  # Without this, each fork would copy every page that its first garbage collection visits.
    while True:
        taken, takes = os.pipe()
        if not os.fork():
            os.close(taken)
            os._exit(_wait_and_serve(channel, takes))
        os.close(takes)
        os.read(taken, 1)  # The pipe is also closed if the fork was killed.
        os.close(taken)
        if _is_closed(channel):
            return 0


def _is_closed(channel: socket.socket) -> bool:
    """Check if the controller is gone or has closed the channel."""
    try:
        return not channel.recv(1, LOOK)
    except BlockingIOError:
        return False


def _wait_and_serve(channel: socket.socket, takes: int) -> int:
    """Run in a fork: drop all rights, wait for a command and run it. Returns the exit status."""
    _give_up_rights()
    gc.set_threshold(GARBAGE)
    data, descriptors, _, _ = socket.recv_fds(channel, 1, 2)
    os.close(takes)
    channel.close()
    return _serve(*descriptors) if data else 0


def _preload() -> None:
    """Import all modules that a command may need.

    A fork runs as nobody and may not be allowed to read them.
    """
    for package in (
        "warpdeck.slurm",
        "warpdeck.notation",
        "warpdeck.client.submission",
        "warpdeck_agent.wire",
    ):
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{package}."):
            if found.name.rpartition(".")[2] not in ("main", "worker", "messages"):
                importlib.import_module(found.name)
    for name in (
        "argparse",
        "csv",
        "datetime",
        "difflib",
        "encodings.latin_1",
        "select",
        "shlex",
        "textwrap",
    ):
        importlib.import_module(name)
    json.loads(json.dumps({}))


def _serve(control: int, access: int) -> int:
    """Run one command. Its exit code is sent to the caller; the exit status of this process is not used."""
    try:
        caller = CommandCaller(socket.socket(fileno=control))
        try:
            caller.end(_run(caller, socket.socket(fileno=access)))
        except OSError:
            raise
        except CutOff:
            caller.cut_off()
        except Exception:
            caller.tell_bug(traceback.format_exc()[-MAX_BUG_CHARS:])
    except OSError:
        return LOST_EXIT
    return 0


def _give_up_rights() -> None:
    """Drop all rights, forbid new files, and limit time and memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _run(caller: CommandCaller, access: socket.socket) -> int:
    asked = caller.request
    _set_time_zone(asked["env"].get("TZ", ""))
    out = io.TextIOWrapper(
        io.BufferedWriter(Printed(caller, OUT), PIECE_BYTES), "utf-8", "surrogateescape", newline="\n"
    )
    err = io.TextIOWrapper(
        io.BufferedWriter(Printed(caller, ERR)), "utf-8", "surrogateescape", newline="\n", write_through=True
    )

    def connect() -> SyncClient:
        out.flush()
        # Duplicate the socket, because each connection of the command closes its own.
        return SyncClient.greeted(access.dup(), asked["welcome"])

    console = Console(
        streams=StandardStreams(
            io.TextIOWrapper(io.BufferedReader(Typed(caller)), "utf-8", "replace"),
            out,
            err,
            columns=asked["columns"],
        ),
        controller=ControllerAccess(
            connect,
            reconnect=_cut_off,
            mark_idle=caller.mark_idle,
            wait_for_job=caller.wait_for_job,
            awaited_job=asked["awaited"],
            nonce=asked["nonce"],
        ),
        env=asked["env"],
        folder=asked["cwd"],
        user=asked["welcome"]["user"],
        host=asked["host"],
        read_file=lambda path, size: caller.read(path, size),
        record=None if asked["in_job"] else caller.record,
    )
    try:
        code = _command(asked["name"], asked["words"], console)
    finally:
        err.flush()
    out.flush()
    return code


def _cut_off() -> SyncClient:
    raise CutOff


def _set_time_zone(name: str) -> None:
    """Set the caller's time zone, or this machine's own if the caller has none.

    Times are printed and parsed in it.
    """
    if name != os.environ.get("TZ", ""):
        os.environ["TZ"] = name
        if not name:
            del os.environ["TZ"]
        time.tzset()


def _command(name: str, words: list[str], console: Console) -> int:
    try:
        if name not in COMMANDS:
            raise UserError(
                f"this controller (warpdeck {__version__}) has no {name}", f"if yours is newer, {RESTART}"
            )
        return run(name, words, console)
    except UserError as error:
        console.streams.err.write(
            f"{name}: error: {error.message}\n" + (f"  {error.hint}\n" if error.hint else "")
        )
        return error.exit_code
    except MemoryError:
        console.streams.err.write(f"{name}: error: the answer is too large; ask for less\n")
        return 1
    except SystemExit as end:  # argparse exits with this.
        return int(end.code or 0)


if __name__ == "__main__":
    sys.exit(main())
