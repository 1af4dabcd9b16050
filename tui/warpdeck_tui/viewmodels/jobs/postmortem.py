"""Finds out why a job failed: one sentence, from its exit, its resource usage and the end of its output.

Causes that the system reports (memory limit, time limit, lost node) take precedence over the output, because
a job that is killed for memory may write anything. If there is a traceback, the line of the exception is
used, even if more text follows.
"""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from typing import NamedTuple

from warpdeck.base.escapes import without_escapes
from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.log.search import TROUBLE

TAIL_BYTES = 32 * 1024
"""Number of bytes at the end of the output that are searched. Tracebacks of distributed trainings are
long.
"""
LAST_LINES = 8
MAX_LINE_CHARACTERS = 300
UNSUSPECTED = ("COMPLETED", "CANCELLED", "PREEMPTED")
"""Final states that need no explanation."""
_SIGNALLED = 128
"""The shell's exit code for a program that was ended by signal N is 128 + N."""
_GPU_MEMORY = re.compile(
    r"CUDA(?: error:)? out of memory|OutOfMemoryError|CUDNN_STATUS_ALLOC_FAILED", re.IGNORECASE
)
_SAID_TWICE = re.compile(r"^.*(?:CUDA(?: error:)? out of memory|OutOfMemoryError)\b[.:]?\s*", re.IGNORECASE)
"""Matches the part of a line about GPU memory that our own message repeats. The numbers follow it."""
_OS_ERROR = re.compile(r"^(?:\w+Error|OSError|IOError): \[Errno \d+\] ")
"""Matches names and numbers of operating system errors. They add nothing to the text, and on 80 columns they
displace the name of the file.
"""
_EXCEPTION = re.compile(r"(?:[\w.]+(?:Error|Exception|Interrupt|Exit)\b.*|[\w.]+: .+)")


class PostMortem(NamedTuple):
    """The cause of a failure as a sentence in `words`, or "" if it is unknown, and the last lines of the output."""

    words: str
    lines: tuple[str, ...] = ()


def post_mortem(detail: JobDetail, tail: bytes) -> PostMortem:
    """Return the cause of the failure of an ended job.

    `tail` contains the last bytes of its output, with stderr after stdout if they are separate files.
    """
    row = detail.row
    if row.end is None or row.state in UNSUSPECTED:
        return PostMortem("")
    lines = _lines(tail)
    return PostMortem(_machine(detail) or _job(detail, lines), tuple(lines[-LAST_LINES:]))


def _lines(tail: bytes) -> list[str]:
    """Return the lines without escape sequences. Of a progress bar, only the last state is kept."""
    text = without_escapes(tail).decode("utf-8", "replace")
    shown = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    return [printable(line.expandtabs(4))[:MAX_LINE_CHARACTERS] for line in shown if line]


def _machine(detail: JobDetail) -> str:
    """Return the cause that the system has reported, or ""."""
    row = detail.row
    if row.exit_cause == "oom" or row.state == "OUT_OF_MEMORY":
        peak = row.used.peak_mem_bytes if row.used else 0
        return (
            f"out of memory{_reached(peak, row.mem_bytes if row.nodes == 1 else 0)}; request more with --mem"
        )
    if row.state == "TIMEOUT":
        return f"reached its time limit of {format_duration(row.time_limit_s or 0)}; request more with --time"
    if row.state in ("NODE_FAIL", "BOOT_FAIL"):
        return (
            printable(detail.message or detail.notice) or f"lost connection to {row.node_list or 'its node'}"
        )
    return ""


def _job(detail: JobDetail, lines: list[str]) -> str:
    """Return the cause from the output or, if it has none, from the exit code."""
    said = _last_trouble(lines)
    if _GPU_MEMORY.search(said):
        used = detail.row.used
        peak = used.gpu_mem_peak_bytes if used and used.gpu_mem_peak_bytes else 0
        more = _SAID_TWICE.sub("", said)
        return f"GPU out of memory{_reached(peak, _gpu_room(detail))}{': ' if more else ''}{more}"
    return _OS_ERROR.sub("", said) or _signal_words(detail.row.exit_code) or printable(detail.message)


def _reached(peak_bytes: int, limit_bytes: int) -> str:
    if not peak_bytes:
        return ""
    limit = f" of {format_memory(limit_bytes)}" if limit_bytes else ""
    return f" at {format_memory(peak_bytes)}{limit}"


def _gpu_room(detail: JobDetail) -> int:
    """Return the GPU memory of the job on the node where it had the most.

    A peak is measured on one node.
    """
    rooms: defaultdict[str, int] = defaultdict(int)
    for gpu in detail.gpus:
        rooms[gpu.node] += gpu.mem_bytes * gpu.share_pct // 100
    return max(rooms.values(), default=0)


def _last_trouble(lines: list[str]) -> str:
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.startswith("Traceback "):
            return next((each for each in lines[number + 1 :] if _EXCEPTION.match(each)), line)
        if TROUBLE.text.search(line):
            return line.strip()
    return ""


def _signal_words(exit_code: str) -> str:
    code, _, number_text = exit_code.partition(":")
    number = int(number_text or 0) or int(code or 0) - _SIGNALLED
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    hint = {
        "SIGKILL": ": sent by kill -9, or by the kernel when out of memory",
        "SIGSEGV": ": a crash in native code",
        "SIGABRT": ": aborted, often a failed CUDA or NCCL assertion",
        "SIGBUS": ": often a full /dev/shm",
    }.get(name, "")
    return f"killed by {name}{hint}"
