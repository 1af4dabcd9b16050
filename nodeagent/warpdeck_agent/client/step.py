"""srun: asks the controller for a step, and relays its tasks' standard streams until they have ended.

Output is acknowledged only after it was written, so that a slow reader slows the tasks and nothing is lost.
When the connection breaks (agent, controller or network), it is made again and the streams continue at the
same position. Signals are passed on to the tasks, except Ctrl-C. One Ctrl-C prints the state of the tasks, a
second one within a second ends them, and a third one leaves srun.
"""

from __future__ import annotations

import os
import select
import stat
import time

from warpdeck_agent.wire.frames import JSON, WireError, json_frame, parse_json, split_data

from .access import SAID, CommandRefused, ControllerLink, Unreachable
from .lines import LabeledOutput, write_all
from .process import check_arguments
from .stepfiles import ERR, OUT, StepFiles, try_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes longer than the start of a step.
    import signal
    from typing import Any, Callable, Dict, List, Optional, Set
else:
    import _signal as signal  # The module signal is this module with enums, which take 4 ms to import.

REQUEST = 1
"""The id of the connection's only request, and of its stream."""
HEADER_SIZE = 13
LIMITS_FILE = "/proc/self/limits"
READ_BYTES = 32 * 1024
SECOND_INTERRUPT_S = 1.0
FORWARDED = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCONT,
    signal.SIGWINCH,
)


class SignalPipe:
    """The signals that were received and not handled yet, in a pipe that wakes `select`."""

    def __init__(self) -> None:
        self.descriptor, self._writer = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._writer, False)

    def add(self, number: int) -> None:
        os.write(self._writer, bytes([number]))

    def take(self) -> List[int]:
        """Return the signals in the order of their arrival, each once."""
        try:
            return list(os.read(self.descriptor, 64))
        except BlockingIOError:
            return []


class StepClient:
    """One srun. `connect` returns a link after the handshake, however long that takes."""

    def __init__(self, connect: Callable[[], ControllerLink], *, name: str = "srun") -> None:
        self._connect = connect
        self._name = name
        self._link: Optional[ControllerLink] = None
        self._step: Dict[str, Any] = {}
        self._have: Dict[str, int] = {}
        self._files: Optional[StepFiles] = None
        self._lines = LabeledOutput(label=False, tasks=1)
        self._signals = SignalPipe()
        self._interrupts: List[float] = []
        self._broken_pipe = False
        self._unwritten: Set[int] = set()
        self._writing = False
        self._is_joined = True
        """False while a new connection has not reached the step yet. Input that came earlier would be dropped."""

    def run(self, argv: List[str], env: Dict[str, str], cwd: str) -> int:
        """Run srun and return its exit code. Raises CommandRefused."""
        check_arguments((cwd, *argv))
        self._catch_signals()
        request: Dict[str, Any] = {"words": argv, "env": env, "cwd": cwd, "has_input": not _reads_nothing()}
        if "--pty" in argv:
            from .keys import window  # Imported here because only the few steps with a terminal need it.

            request["rows"], request["cols"] = window()
        # a repeated request after a lost connection refers to the same step
        request["nonce"] = os.urandom(16).hex()
        texts = _limits()
        tried: List[str] = []
        while True:
            self._open("srun", files=texts, writes=tried, **request)
            try:
                ended = self._wait_for_start()
                if ended is not None:
                    return ended
                break
            except CommandRefused as refused:
                if refused.writes and refused.writes not in tried:
                    try_to_write(refused.writes)
                    tried.append(refused.writes)
                    continue
                if not refused.file or refused.file in texts:
                    raise
                texts[refused.file] = _text(refused.file, cwd)
            except Unreachable:
                continue
        assert self._files is not None
        return self._relay_keys(self._files) if self._files.pty else self._relay_until_end()

    def _relay_keys(self, files: StepFiles) -> int:
        """Relay the streams of a task on a terminal of its own."""
        from .keys import RawInput  # Imported here because only the few steps with a terminal need it.

        keyboard = RawInput()
        keyboard.start()
        try:
            self._send_raw(files.size_frames())
            return self._relay_until_end()
        except Unreachable:
            return self._relay_until_end()  # the size is sent again with the unacknowledged input
        finally:
            keyboard.stop()

    def _open(self, kind: str, **fields: Any) -> None:
        self._link = self._connect()
        self._link.socket.settimeout(None)
        self._link.socket.sendall(json_frame({"t": kind, "id": REQUEST, **fields}))

    def _wait_for_start(self) -> Optional[int]:
        """Wait until the step runs, and print why it waits.

        Returns the exit code if no step is to run. Raises CommandRefused or Unreachable.
        """
        while not self._step:
            assert self._link is not None
            sources: List[Any] = [self._link.socket, self._signals.descriptor]
            ready, _, _ = select.select(sources, [], [])
            if self._signals.descriptor in ready and set(self._signals.take()) - {signal.SIGWINCH}:
                self._link.socket.close()
                raise KeyboardInterrupt
            if self._link.socket in ready:
                ended = self._receive()
                if ended is not None:
                    return ended
        return None

    def _relay_until_end(self) -> int:
        while True:
            try:
                return self._relay()
            except Unreachable:
                self._say("the connection was lost; reconnecting to the step")
                self._rejoin()

    def _rejoin(self) -> None:
        have = {key: str(size) for key, size in self._have.items()}
        label = f"{self._step['job_id']}.{self._step['step']}"
        self._is_joined = False
        self._open("srun_attach", step=label, have=have)

    def _relay(self) -> int:
        """Relay the streams until the end. Returns the exit code. Raises Unreachable when the link breaks."""
        assert self._files is not None and self._link is not None
        while True:
            files = self._files
            sources: List[Any] = [self._link.socket]
            sources += [self._signals.descriptor] if self._is_joined else []
            reading = files.source() if self._is_joined else -1
            if reading >= 0:
                sources.append(reading)
            ready, _, _ = select.select(sources, [], [])
            if self._signals.descriptor in ready:
                for number in self._signals.take():
                    self._signal(number)
            if reading >= 0 and reading in ready:
                self._send_raw(files.read_frames(READ_BYTES))
            if self._link.socket in ready:
                ended = self._receive()
                if ended is not None:
                    return ended

    def _receive(self) -> Optional[int]:
        """Process data from the controller.

        Returns the exit code at the end, else None. Raises Unreachable or CommandRefused.
        """
        assert self._link is not None
        try:
            data = self._link.socket.recv(1 << 18)
        except OSError as error:
            raise Unreachable(str(error)) from error
        if not data:
            raise Unreachable("the connection was closed")
        try:
            for kind, payload in self._link.decoder.feed(data):
                if kind != JSON:
                    self._write_output(split_data(payload)[1])
                    continue
                ended = self._handle(parse_json(payload))
                if ended is not None:
                    return ended
        except WireError as error:
            raise CommandRefused(f"the controller sent invalid data: {error}") from error
        return None

    def _handle(self, message: Dict[str, Any]) -> Optional[int]:
        kind = message["t"]
        if kind == "ok":
            self._begin(message["result"])
        elif kind in ("progress", "note"):
            self._say(str(message["line"]))
        elif kind == "ack" and self._files is not None:
            self._files.acknowledge(int(message["size"]))
        elif kind == "error":
            raise CommandRefused(
                str(message["message"]),
                str(message.get("hint", "")),
                int(message.get("exit_code", 1)),
                file=str((message.get("details") or {}).get("file", "")),
                writes=str((message.get("details") or {}).get("writes", "")),
                is_complete=message.get("code") == SAID,
            )
        elif kind == "end":
            return self._end(message)
        elif kind == "told":
            write_all(1, str(message["text"]).encode())
            return int(message.get("code", 0))
        return None

    def _begin(self, result: Dict[str, Any]) -> None:
        if self._files is not None:  # reconnected to the step
            self._is_joined = True
            self._send_raw(self._files.resend())
            return
        self._step = result
        self._lines = LabeledOutput(label=result["label"], tasks=int(result["tasks"]))
        self._files = StepFiles(result, REQUEST)

    def _write_output(self, piece: bytes) -> None:
        """Write output bytes of one task, which follow a header with their rank, channel and offset."""
        rank, channel = int.from_bytes(piece[:4], "big"), piece[4]
        offset, data = int.from_bytes(piece[5:HEADER_SIZE], "big"), piece[HEADER_SIZE:]
        key = f"{rank}.{channel}"
        fresh = data[max(0, self._have.get(key, 0) - offset) :]
        assert self._files is not None
        sink = self._files.sink(rank, channel)
        if fresh and sink >= 0 and not self._broken_pipe:
            self._write(sink, lambda: self._lines.write(sink, rank, fresh))
            if self._broken_pipe:
                self._tell("step_order", what="signal", signal=int(signal.SIGKILL))
        self._have[key] = max(self._have.get(key, 0), offset + len(data))
        self._tell("ack", size=len(piece))

    def _end(self, message: Dict[str, Any]) -> int:
        self._write(OUT, self._lines.finish)
        if message.get("error"):
            self._say(f"error: {message['error']}")
        ended = message.get("exit") or {}
        number = int(ended.get("signal", 0))
        return 128 + number if number else int(ended.get("code", 1))

    def _signal(self, number: int) -> None:
        if number == signal.SIGWINCH:
            if self._files is not None and self._files.pty:
                self._send_raw(self._files.size_frames())
            return
        if number in self._step.get("ignores", ()):
            return
        if number != signal.SIGINT:
            self._tell("step_order", what="signal", signal=number)
            return
        now = time.monotonic()
        self._interrupts = [at for at in self._interrupts if now - at < SECOND_INTERRUPT_S] + [now]
        if self._step.get("quits") or len(self._interrupts) == 2:
            self._tell("step_order", what="signal", signal=int(signal.SIGINT))
            self._tell("step_order", what="end")
            self._say(f"sending Ctrl-C to StepId={self._step['job_id']}.{self._step['step']}")
        elif len(self._interrupts) > 2:
            raise KeyboardInterrupt
        else:
            self._say("interrupt (one more within 1 sec to abort)")
            self._tell("step_order", what="status")

    def _write(self, sink: int, write: Callable[[], None]) -> None:
        """Run a write to a reader that may be slow or stopped.

        A signal that arrives meanwhile is passed on at once. The tasks continue if their output cannot be
        written, for example on a full disk; that is reported once.
        """
        before, self._writing = self._writing, True
        try:
            write()
            self._unwritten.discard(sink)
        except BrokenPipeError:
            self._broken_pipe = True
        except OSError as error:
            if sink not in self._unwritten:
                self._unwritten.add(sink)
                self._say(f"error: output is lost, because it cannot be written: {error.strerror}")
        finally:
            self._writing = before

    def _tell(self, kind: str, **fields: Any) -> None:
        self._send_raw(json_frame({"t": kind, "stream": REQUEST, **fields}))

    def _send_raw(self, frames: bytes) -> None:
        assert self._link is not None
        if not frames:
            return
        try:
            self._link.socket.sendall(frames)
        except OSError as error:
            raise Unreachable(str(error)) from error

    def _say(self, line: str) -> None:
        errors = self._name == "srun" and line.startswith("error: ")  # sbcast prints its own errors
        if self._step.get("quiet") and not errors:
            return
        if os.isatty(ERR):
            from .visible import visible_word  # Most steps print into a pipe or a file.

            line = visible_word(line)
        before, self._writing = self._writing, True
        try:
            write_all(ERR, f"{self._name}: {line}\n".encode("utf-8", "replace"))
        except OSError:
            pass  # standard error is closed, so the message cannot be shown
        finally:
            self._writing = before

    def _catch_signals(self) -> None:
        for number in (signal.SIGINT, *FORWARDED):
            signal.signal(number, lambda number, _: self._on_signal(number))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _on_signal(self, number: int) -> None:
        if not self._writing or not self._step or not self._is_joined:
            self._signals.add(number)
            return
        self._writing = False  # the next signal must not interrupt a frame that is being sent here
        try:
            self._signal(number)
        except Unreachable:
            self._signals.add(number)  # it is sent over the next link
        finally:
            self._writing = True


def _reads_nothing() -> bool:
    """Return whether our own standard input is certainly closed or empty."""
    try:
        found = os.fstat(0)
    except OSError:
        return True
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev


def _limits() -> Dict[str, str]:
    """Return the resource limits of this process for its tasks (--propagate).

    The result is empty if the kernel does not report them.
    """
    try:
        with open(LIMITS_FILE, "rb") as file:  # reading text would import a codec
            return {LIMITS_FILE: file.read(1 << 14).decode("ascii")}
    except OSError:
        return {}


def _text(path: str, cwd: str) -> str:
    """Return the text of a file that an option names. Raises CommandRefused."""
    try:
        with open(os.path.join(cwd, path), encoding="utf-8", errors="surrogateescape") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise CommandRefused(f"cannot read {path}: {error.strerror}", "check its path") from error
