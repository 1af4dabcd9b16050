"""Texts and terminal sequences for notifications about jobs that start and end. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.jobs.queue import how_ended
from warpdeck_tui.widgets.cells import printable

MOST_TOLD = 3
"""Largest number of events that are listed one by one. More are only counted."""
MAX_CHARACTERS = 200
"""Largest length of a notification, about as much as desktops show."""
RUNNING = ("RUNNING", "COMPLETING")


def event(before: JobRow | None, row: JobRow) -> str:
    """Return "started" or "ended" if that happened between the two rows, else "".

    `before` is None for array tasks and for jobs that appeared just now.
    """
    if row.end is not None:
        return "ended" if before is None or before.end is None else ""
    started = row.state in RUNNING and row.start is not None
    return "started" if started and (before is None or before.start is None) else ""


def sentence(kind: str, row: JobRow) -> str:
    """Return one line about one job."""
    name = f"Job {row.label} {printable(row.name)}".rstrip()
    if kind == "started":
        return f"{name} started on {row.node_list}"
    return f"{name} ended: {how_ended(row)}"


def ready_words(label: str, *, key: str) -> str:
    """Return the message that a session which was left waiting has started. `key` attaches to it."""
    return f"Session {label} is ready: {key} attaches"


def bundle(news: Sequence[tuple[str, JobRow]]) -> list[str]:
    """Return lines about all events that arrived together."""
    if len(news) <= MOST_TOLD:
        return [sentence(kind, row) for kind, row in news]
    counts = {kind: sum(each == kind for each, _ in news) for kind in ("started", "ended")}
    return [f"{plural(count, 'job')} {kind}" for kind, count in counts.items() if count]


def desktop_sequence(words: str, *, in_tmux: bool) -> str:
    """Return the OSC 9 sequence with this text, and a bell for terminals that do not support OSC 9.

    tmux passes the sequence on unchanged (allow-passthrough) and handles the bell.
    """
    told = f"\x1b]9;{printable(words[:MAX_CHARACTERS])}\x07"
    if in_tmux:
        told = "\x1bPtmux;" + told.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return told + "\x07"
