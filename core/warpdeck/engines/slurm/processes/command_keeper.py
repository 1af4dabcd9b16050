"""Keeps one srun or salloc of a gateway to Slurm, so that its step or its allocation survives the gateway.

  python -m warpdeck.engines.slurm.processes.command_keeper FOLDER

The gateway starts this program on its own machine, in the command's folder, and writes an `Order` to its standard input as
JSON. The program listens at FOLDER/socket, goes into the background, and runs the command. FOLDER/step is a named pipe
into which srun's prolog writes the number of the step. Without it, as for salloc, the number is not awaited.

The gateway joins with {"t": "join", "have": {"1": N, "2": N}}, the output that the client has. Before the step exists, it
receives {"t": "waits", "line"} with srun's reasons to wait, then {"t": "step", "job_id", "number"}. After that, or
after an end without a step, data frames with TASK_HEADER carry the output. The last message is {"t": "exit", "code",
"signal"}. The gateway sends data frames with the input, which {"t": "taken", "size"} acknowledges, and {"t": "signal",
"number"}, {"t": "end"}, and {"t": "forget"} after the exit has reached the client. {"t": "leave"} ends the command for a
client that has left, and {"t": "abandon"} for one that does not come back, unless its process still runs.

The output is kept in memory, and the command waits while a client reads nothing, as with a full pipe. Without a gateway
the command runs until the process of its client has ended. If this process is unknown, it runs on for AWAY_S.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any, NamedTuple

from warpdeck_agent.client.keys import SIZE
from warpdeck_agent.wire.frames import (
    DATA_CHUNK_BYTES,
    JSON,
    FrameDecoder,
    WireError,
    data_frame,
    json_frame,
    parse_json,
    split_data,
)
from warpdeck_agent.wire.steps import ERR, OUT

from .kept_streams import Input, Output

AWAY_S = 1800.0
"""Seconds for which a command of an unknown client runs on without a gateway."""
END_S = 5.0
"""Seconds between the signals that end a command."""
LOOK_S = 2.0
"""Interval in seconds between checks whether the client and the folder still exist."""
WAITS = (
    b"srun: job ",
    b"srun: Job ",
    b"srun: Pending job allocation",
    b"srun: Step created",
    b"srun: step creation",
    b"srun: Required node",
)
"""Beginnings of lines with which srun reports that it waits."""
NAME = b"srun: "
ALREADY = 3
"""Exit code if the command of this folder runs or has run already."""


class Order(NamedTuple):
    """The command to keep. `client` is the process that it belongs to; 0 if it is unknown."""

    command: list[str]
    environ: dict[str, str]
    has_input: bool
    terminal: list[str]
    """The beginning of the command line that runs a command on a terminal (`ptytask` of the agent), or [] for pipes."""
    rows: int
    cols: int
    client: int = 0
    end_s: float = END_S


class Link:
    """The connection of a gateway."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.decoder = FrameDecoder()
        self.unsent = bytearray()
        self.has_joined = False
        self.told_step = False
        self.told_exit = False


class Creation:
    """The number of the step that srun creates, once it is known, and the reasons why srun waits."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.waits: list[str] = []
        self.descriptor = _open_marker(folder)
        self.step: tuple[int, int] | None = None if self.descriptor >= 0 else self._unknown()

    def _unknown(self) -> tuple[int, int]:
        """Return replacement numbers for a step with an unknown number."""
        return 0, int(os.path.basename(self._folder)[:7], 16)

    def look(self) -> None:
        """Read which step srun has created."""
        if self.step is not None:
            return
        try:
            words = os.read(self.descriptor, 4096).decode(errors="replace").split()
        except BlockingIOError:
            return
        numbers = [int(word) for word in words[:2] if word.isdecimal()]
        self.step = (numbers[0], numbers[1]) if len(numbers) == 2 else self._unknown()
        path = os.path.join(self._folder, f"{self.step[0]}.{self.step[1]}")
        # A later gateway finds the step by the name of this file. On a full disk, only the present one can.
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


class Command:
    """The running command. `ended` is its exit code and its signal, once it has ended."""

    def __init__(self, order: Order) -> None:
        self._has_terminal = bool(order.terminal)
        self._end_s = order.end_s
        self._kill_at = 0.0
        """Time at which it is killed because it has not ended by itself; 0 if it is not to end."""
        self.ended: tuple[int, int] | None = None
        self._process, source, out, err = _start(order)
        # A change of the size before the step listens for it makes srun ignore all later changes.
        size = bytes([SIZE]) + order.rows.to_bytes(2, "big") + order.cols.to_bytes(2, "big")
        self.input = Input(source, size if order.terminal else b"")
        if not order.has_input and not order.terminal:
            self.input.close()
        self.outputs = (Output(OUT, out), Output(ERR, err))

    def look(self) -> None:
        """Notice its end, and kill it if it has not ended in time."""
        code = self._process.poll()
        if code is None and self._kill_at and time.monotonic() >= self._kill_at:
            self.kill(signal.SIGKILL)
        if code is None or self.ended is not None:
            return
        for output in self.outputs:
            output.finish()
        self.ended = (max(code, 0), max(-code, 0))

    def end(self) -> None:
        """End it, and with it its tasks or its allocation. A terminal is hung up."""
        if not self._kill_at:
            self._kill_at = time.monotonic() + self._end_s
            self.input.close()
            self.kill(signal.SIGKILL if self._has_terminal else signal.SIGTERM)

    def kill(self, number: int) -> None:
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class CommandKeeper:
    """One command and the gateway that has joined it."""

    def __init__(self, folder: str, listener: socket.socket, order: Order) -> None:
        self._folder = folder
        self._listener = listener
        self._link: Link | None = None
        self._alone_since = self._looked_at = time.monotonic()
        self._is_left = False
        """Whether the client has left for good."""
        self._is_forgotten = False
        self._wakeup, waker = os.pipe()
        for descriptor in (self._wakeup, waker):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker)
        self._creation = Creation(folder)
        self._command = Command(order)
        self._client = _open_process(order.client)

    def run(self) -> None:
        """Serve until the gateway has told the client the end, or until nobody has joined for too long."""
        while not self._is_forgotten:
            self._wait()
            self._creation.look()
            for output in self._command.outputs:
                if output.is_wanted:
                    self._take_output(output)
            if self._command.input.is_waiting and (size := self._command.input.write()):
                self._tell({"t": "taken", "size": size})
            self._command.look()
            self._look_for_gateway()
            self._is_forgotten |= self._is_left and self._command.ended is not None
            self._send()

    def _wait(self) -> None:
        source = self._command.input
        reads: list[Any] = [self._listener, self._wakeup]
        reads += [output.descriptor for output in self._command.outputs if output.is_wanted]
        reads += [self._creation.descriptor] if self._creation.step is None else []
        writes: list[Any] = [source.descriptor] if source.is_open and source.is_waiting else []
        link = self._link
        if link is not None:
            reads.append(link.socket)
            writes += [link.socket] if link.unsent else []
        ready, _, _ = select.select(reads, writes, [], LOOK_S)
        if self._wakeup in ready:
            os.read(self._wakeup, 1024)
        if link is not None and link.socket in ready:
            self._read_link(link)
        if self._listener in ready:
            self._accept()

    def _take_output(self, output: Output) -> None:
        """Read output. While srun waits, its lines that say so are told at once and are not output."""
        data = output.read()
        if self._creation.step is not None or output.channel != ERR:
            output.add(data)
            return
        for line in data.splitlines(keepends=True):
            if line.startswith(WAITS):
                text = line[len(NAME) :].decode(errors="replace").rstrip("\n")
                self._creation.waits.append(text)
                self._tell({"t": "waits", "line": text})
            else:
                output.add(line)

    def _look_for_gateway(self) -> None:
        """End the command if its client is gone while no gateway has joined, or if its folder was removed."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        is_alone = self._link is None and self._is_client_gone(now - self._alone_since > AWAY_S)
        if is_alone or not os.path.isdir(self._folder):
            self._is_forgotten = self._command.ended is not None
            self._command.end()

    def _is_client_gone(self, otherwise: bool) -> bool:
        """Return whether the process of the client has ended, or `otherwise` if the process is unknown."""
        return otherwise if self._client < 0 else bool(select.select([self._client], [], [], 0)[0])

    def _accept(self) -> None:
        """Take a new gateway in place of an earlier one."""
        connection, _ = self._listener.accept()
        self._drop_link()
        self._link = Link(connection)

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.socket.close()
            self._link = None
            self._alone_since = time.monotonic()
            self._command.input.drop_unwritten()

    def _read_link(self, link: Link) -> None:
        try:
            data = link.socket.recv(DATA_CHUNK_BYTES)
            if not data:
                raise ConnectionError
            for kind, payload in link.decoder.feed(data):
                if kind == JSON:
                    self._handle(link, parse_json(payload))
                elif link.has_joined:
                    self._command.input.add(split_data(payload)[1])
        except BlockingIOError:
            return
        except (OSError, WireError, KeyError, TypeError, ValueError):
            self._drop_link()

    def _handle(self, link: Link, message: dict[str, Any]) -> None:
        kind = message["t"]
        if kind == "join":
            for output in self._command.outputs:
                output.go_back(int(message["have"].get(str(output.channel), 0)))
            link.has_joined = True
            for line in self._creation.waits if self._creation.step is None else []:
                self._tell({"t": "waits", "line": line})
        elif kind == "signal":
            self._command.kill(int(message["number"]))
        elif kind in ("end", "leave"):
            self._is_left |= kind == "leave"
            self._command.end()
        elif kind == "abandon" and self._is_client_gone(True):
            self._is_left = True
            self._command.end()
        elif kind == "forget":
            self._is_forgotten = self._command.ended is not None

    def _tell(self, message: dict[str, Any]) -> None:
        if self._link is not None and self._link.has_joined:
            self._link.unsent += json_frame(message)

    def _send(self) -> None:
        """Send the gateway as much as it takes now."""
        link = self._link
        try:
            while link is not None and link.has_joined and (link.unsent or self._fill(link)):
                del link.unsent[: link.socket.send(link.unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._drop_link()

    def _fill(self, link: Link) -> bool:
        """Prepare the next message for the gateway, and return whether there is one."""
        step, ended = self._creation.step, self._command.ended
        if step is None and ended is None:
            return False
        if step is not None and not link.told_step:
            link.told_step = True
            link.unsent += json_frame({"t": "step", "job_id": step[0], "number": step[1]})
            return True
        for output in self._command.outputs:
            if piece := output.next_piece():
                link.unsent += data_frame(1, piece)
                return True
        if ended is None or link.told_exit:
            return False
        link.told_exit = True
        link.unsent += json_frame({"t": "exit", "code": ended[0], "signal": ended[1]})
        return True


def _start(order: Order) -> tuple[subprocess.Popen[bytes], int, int, int]:
    """Start the command, and return our ends of its input, output and messages. Its messages never go to the terminal."""
    source, ours_in = os.pipe()
    ours_out, out = os.pipe()
    ours_err, err = os.pipe()
    command, passed = order.command, list[int]()
    if order.terminal:
        to_pipe = f'exec "$@" 2>/proc/self/fd/{err}'  # sh accepts descriptors of one digit only
        command, passed = [*order.terminal, "/bin/sh", "-c", to_pipe, "sh", *command], [err]
    try:
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=out,
            stderr=err,
            env=order.environ,
            start_new_session=True,
            pass_fds=passed,
        )
    finally:
        for descriptor in (source, out, err):
            os.close(descriptor)
    return process, ours_in, ours_out, ours_err


def _open_process(pid: int) -> int:
    """Return a descriptor that is readable once the process has ended, or -1 if it is unknown."""
    try:
        return os.pidfd_open(pid) if pid > 0 else -1
    except OSError:
        return -1


def _open_marker(folder: str) -> int:
    """Open the pipe for the number of the step, or return -1 if there is none."""
    try:
        # It is opened for writing, too, so that reading does not end before srun has written.
        return os.open(os.path.join(folder, "step"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def _listen(folder: str) -> socket.socket:
    """Return a socket at FOLDER/socket. The path may be longer than the name of a socket may be."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"/proc/self/fd/{descriptor}/socket")
    finally:
        os.close(descriptor)
    listener.listen(4)
    return listener


def _claim(folder: str) -> bool:
    """Return whether this process is the first one that runs the command of this folder. Raises OSError."""
    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(os.open(os.path.join(folder, "started"), os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except (BlockingIOError, FileExistsError):
        return False
    return True  # The lock is held until the process in the background ends.


def main() -> int:
    """Listen, go into the background, and keep the command. The gateway waits only for the first part."""
    folder = sys.argv[1]
    os.closerange(
        3, os.sysconf("SC_OPEN_MAX")
    )  # uvloop leaves copies of the pipes open, whose ends the gateway awaits.
    order = Order(**json.load(sys.stdin))
    try:
        if not _claim(folder):
            return ALREADY
        listener = _listen(folder)
    except OSError as error:
        print(f"cannot use {folder}: {error.strerror}", file=sys.stderr)
        return 1
    if os.fork():
        return 0
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # The command would inherit that a signal is ignored.
        signal.signal(number, lambda number, frame: None)
    try:
        keeper = CommandKeeper(folder, listener, order)
        os.chdir("/")
        keeper.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
