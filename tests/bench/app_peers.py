"""Compare the costs of the app with those of other terminal programs: `python -m tests.bench.app_peers [SECONDS]`.

It measures the CPU time and the output of each program while nobody presses a key, and the time from its start to its
first frame. The output is counted at the terminal, as an SSH connection would carry it before compression. All programs are
idle at the same time, in terminals of 120 x 40 cells, so they meet the same load of the machine.

Programs whose screen moves by itself (btop) are compared with the app in the demo: 64 GPUs and about 40 jobs with live
values. Programs whose screen stands still (lazygit) are compared with the app over a queue of one held job. A program that
PATH does not contain is left out.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from tests.support.processes import has_ended
from tests.support.waiting import eventually

from .jobs import console_script
from .rig import TICKS_A_SECOND, open_rig
from .screen import MARK, PATIENCE_S, forked_app

SETTLE_S, IDLE_S = 15.0, 60.0
"""Seconds before the measurement, in which programs load their parts, and seconds of the measurement."""
STARTS = 5
FRAME_CHARACTERS = 40
"""A frame has at least this number of printable characters."""
HELP = "x N: the program needs N times as much as warpdeck does"
_SEQUENCES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b.|[\x00-\x1f]"
)
COLUMNS = ("program", "CPU of one core", "output in a minute", "first frame", "with its data")
WIDTHS = (36, 16, 20, 18, 18)


class Program(NamedTuple):
    """A program, its arguments, and a text that its screen shows when its data has arrived."""

    name: str
    argv: tuple[str, ...]
    shows: bytes
    moves: bool
    what: str = ""


class Figures(NamedTuple):
    """CPU in percent of one core, output in bytes per minute, and the times of a start in milliseconds."""

    cpu_percent: float
    bytes_per_minute: float
    frame_ms: float
    data_ms: float


PEERS = (
    Program("btop", ("btop", "--utf-force"), b"Program:", True, "processes of this machine"),
    Program("htop", ("htop",), b"Load average", True, "processes of this machine"),
    Program("nvitop", ("nvitop",), b"PID", True, "GPUs of this machine"),
    Program("turm", ("turm",), MARK.encode(), True, "the same queue, by our squeue"),
    Program("lazygit", ("lazygit",), b"Commits", False, "this repository"),
    Program("posting", ("posting",), b"Collection", False, "an empty collection"),
    Program("harlequin", ("harlequin",), b"Query Editor", False, "an empty database"),
)


class Reader:
    """Reads the output of a program as a terminal does, and counts it."""

    def __init__(self, terminal: int) -> None:
        self.count = 0
        self._terminal = terminal
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            if not select.select([self._terminal], [], [], 0.2)[0]:
                continue
            try:
                self.count += len(os.read(self._terminal, 65536))
            except OSError:  # the program has ended
                return


@contextmanager
def running(program: Program, environ: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Run the program. Return its pid and our end of its terminal. Ask it to end before it is killed."""
    path = shutil.which(program.argv[0], path=environ["PATH"])
    assert path is not None, program.argv[0]
    with forked_app([path, *program.argv[1:]], environ) as (pid, terminal):
        try:
            yield pid, terminal
        finally:
            os.kill(pid, signal.SIGTERM)
            reader = Reader(terminal)
            with suppress(AssertionError):
                eventually(lambda: has_ended(pid), timeout_s=5.0, what=f"{program.name} has ended")
            reader.stop()


def session_cpu_s(leader: int) -> float:
    """Return the CPU time of all processes in the leader's session, with that of their ended children."""
    total = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has just ended
            continue
        if int(fields[3]) == leader:
            total += sum(map(int, fields[11:15]))
    return total / TICKS_A_SECOND


def started(program: Program, environ: dict[str, str]) -> tuple[float, float]:
    """Return milliseconds from the start to the first frame, and to the frame that shows the data."""
    begun, seen, frame = time.perf_counter(), b"", 0.0
    with running(program, environ) as (_, terminal):
        while True:
            left = begun + PATIENCE_S - time.perf_counter()
            assert left > 0 and select.select([terminal], [], [], left)[0], (
                f"{program.name} shows no {program.shows!r}"
            )
            seen += _read(program, terminal)
            text, now = _SEQUENCES.sub(b"", seen), (time.perf_counter() - begun) * 1e3
            if not frame and len(text.split()) and len(text.replace(b" ", b"")) >= FRAME_CHARACTERS:
                frame = now
            if program.shows in text:
                return frame or now, now


def _read(program: Program, terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # its end of the terminal is closed
        raise AssertionError(f"{program.name} ends at once here") from None


def usable(peers: Sequence[Program], environ: dict[str, str]) -> Iterator[Program]:
    """Return the programs that are installed and show their screen, and print why others are left out."""
    for peer in peers:
        if shutil.which(peer.argv[0], path=environ["PATH"]) is None:
            print(f"{peer.name}: not installed", flush=True)
            continue
        try:
            started(peer, environ)
        except AssertionError as error:
            print(f"{peer.name}: left out: {error}", flush=True)
            continue
        yield peer


def idle(programs: Sequence[Program], environ: dict[str, str], *, for_s: float) -> list[tuple[float, float]]:
    """Run all programs at once. Return the CPU in percent of one core and the bytes per minute of each one."""
    with ExitStack() as stack:
        pairs = [stack.enter_context(running(program, environ)) for program in programs]
        readers = [Reader(terminal) for _, terminal in pairs]
        time.sleep(SETTLE_S)  # the programs settle
        before, begun = (
            [(session_cpu_s(pid), reader.count) for (pid, _), reader in zip(pairs, readers, strict=True)],
            time.monotonic(),
        )
        time.sleep(for_s)  # this is the measured time, not a wait for a condition
        took_s = time.monotonic() - begun
        found = [
            (100.0 * (session_cpu_s(pid) - cpu) / took_s, 60.0 * (reader.count - count) / took_s)
            for (pid, _), reader, (cpu, count) in zip(pairs, readers, before, strict=True)
        ]
        for reader in readers:
            reader.stop()
        return found


def measure(programs: Sequence[Program], environ: dict[str, str], *, for_s: float) -> list[Figures]:
    """Measure all programs. Their starts take turns, so that a load of the machine meets all of them."""
    costs = idle(programs, environ, for_s=for_s)
    starts: list[list[tuple[float, float]]] = [[] for _ in programs]
    for _ in range(STARTS + 1):
        for found, program in zip(starts, programs, strict=True):
            found.append(started(program, environ))
    return [
        Figures(*cost, *(statistics.median(column) for column in zip(*found[1:], strict=True)))
        for cost, found in zip(costs, starts, strict=True)
    ]


def rows(programs: Sequence[Program], figures: Sequence[Figures]) -> Iterator[tuple[str, ...]]:
    """Return a row for each program. Peers have the ratio to the app whose screen moves, or stands still, like theirs."""
    ours = {program.moves: found for program, found in zip(programs[:2], figures[:2], strict=True)}
    for index, (program, found) in enumerate(zip(programs, figures, strict=True)):
        texts = [
            f"{found.cpu_percent:.2f}%",
            f"{found.bytes_per_minute / 1e3:,.1f} kB",
            f"{found.frame_ms:,.0f} ms",
            f"{found.data_ms:,.0f} ms",
        ]
        label = f"{program.name}: {program.what}"
        ratios = ["" if index < 2 else _ratio(*pair) for pair in zip(found, ours[program.moves], strict=True)]
        texts = [f"{text:>9}  {ratio}" for text, ratio in zip(texts, ratios, strict=True)]
        yield (label, *texts)


def _ratio(theirs: float, own: float) -> str:
    return f"x {theirs / own:.2g}" if own else ""


def main(words: list[str]) -> int:
    """Print the figures of the app and of each program on PATH."""
    for_s = float(words[0]) if words else IDLE_S
    with open_rig() as rig:
        rig.submit("#!/bin/sh\ntrue\n", name=MARK, hold=True)
        environ = {**rig.home.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        for name in ("COLORTERM", "NO_COLOR"):
            environ.pop(name, None)
        environ["PATH"] = f"{rig.home.ok('shims', '--folder').strip()}:{os.environ['PATH']}"
        command = console_script()[0]
        programs = [
            Program("warpdeck", (command,), MARK.encode(), False, "a queue of one job"),
            Program("warpdeck demo", (command, "demo"), b"vit-l-pretr", True, "64 GPUs, live"),
        ]
        programs += usable(PEERS, environ)
        print(
            f"load average {os.getloadavg()[0]:.1f}; {for_s:.0f} s without a key; {STARTS} starts. {HELP}.\n"
        )
        figures = measure(programs, environ, for_s=for_s)
    for row in (COLUMNS, *rows(programs, figures)):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=True)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
