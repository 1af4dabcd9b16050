"""What a failed job died of: one sentence, from how it ended, what it used and the end of what it wrote.

What the machine says (memory limit, time limit, lost node) goes before what the job says: a job that is killed for memory
writes all kinds of things. Of a Traceback the exception's own line counts, whatever was written after it.
"""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from typing import NamedTuple

from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.log.ansi import without_escapes
from warpdeck_tui.widgets.log.search import TROUBLE

TAIL_BYTES = 32 * 1024
"""So much of the end of its output is looked at: a Traceback of a distributed training is long."""
LAST_LINES = 8
MAX_LINE_CHARACTERS = 300
UNSUSPECTED = ("COMPLETED", "CANCELLED", "PREEMPTED")
"""Ends that need no explanation."""
_SIGNALLED = 128
"""A shell's exit code for a program that signal N ended is 128 + N."""
_GPU_MEMORY = re.compile(
    r"CUDA(?: error:)? out of memory|OutOfMemoryError|CUDNN_STATUS_ALLOC_FAILED", re.IGNORECASE
)
_SAID_TWICE = re.compile(r"^.*(?:CUDA(?: error:)? out of memory|OutOfMemoryError)\b[.:]?\s*", re.IGNORECASE)
"""What a line about GPU memory says that our own words say too; the figures follow."""
_OS_ERROR = re.compile(r"^(?:\w+Error|OSError|IOError): \[Errno \d+\] ")
"""Their names and numbers tell nothing that the words behind them do not, and on 80 columns cost the file's name."""
_EXCEPTION = re.compile(r"(?:[\w.]+(?:Error|Exception|Interrupt|Exit)\b.*|[\w.]+: .+)")


class PostMortem(NamedTuple):
    """`words`: the sentence, "" where nothing is known. `lines`: the last that it wrote."""

    words: str
    lines: tuple[str, ...] = ()


def post_mortem(detail: JobDetail, tail: bytes) -> PostMortem:
    """Of a job that has ended. `tail`: the last bytes of its output, stderr behind stdout if they are two files."""
    row = detail.row
    if row.end is None or row.state in UNSUSPECTED:
        return PostMortem("")
    lines = _lines(tail)
    return PostMortem(_machine(detail) or _job(detail, lines), tuple(lines[-LAST_LINES:]))


def _lines(tail: bytes) -> list[str]:
    """Its lines without escapes; of a progress bar what stood there last."""
    text = without_escapes(tail).decode("utf-8", "replace")
    shown = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    return [printable(line.expandtabs(4))[:MAX_LINE_CHARACTERS] for line in shown if line]


def _machine(detail: JobDetail) -> str:
    """What the cluster did to it, or saw of it."""
    row = detail.row
    if row.exit_cause == "oom" or row.state == "OUT_OF_MEMORY":
        peak = row.used.peak_mem_bytes if row.used else 0
        return f"out of memory{_reached(peak, row.mem_bytes if row.nodes == 1 else 0)}; --mem asks for more"
    if row.state == "TIMEOUT":
        return f"its time limit of {format_duration(row.time_limit_s or 0)} was over; --time asks for more"
    if row.state in ("NODE_FAIL", "BOOT_FAIL"):
        return printable(detail.message or detail.notice) or f"{row.node_list or 'its node'} was lost"
    return ""


def _job(detail: JobDetail, lines: list[str]) -> str:
    """What it wrote, or what its exit code means."""
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
    """The GPU memory that it had on one node, the largest: a peak is of one node."""
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
        "SIGKILL": ": somebody's kill -9, or the kernel for want of memory",
        "SIGSEGV": ": a crash in native code",
        "SIGABRT": ": it gave up by itself, often a failed assertion of CUDA or NCCL",
        "SIGBUS": ": often a full /dev/shm",
    }.get(name, "")
    return f"{name} ended it{hint}"
