"""What is told of jobs that start and end, as words, and as what makes a terminal show them on the desktop. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.jobs.queue import how_ended
from warpdeck_tui.widgets.cells import printable

MOST_TOLD = 3
"""One by one; of more only how many."""
MAX_CHARACTERS = 200
"""Desktops show about so much of a notice."""
RUNNING = ("RUNNING", "COMPLETING")


def event(before: JobRow | None, row: JobRow) -> str:
    """ "started" or "ended" if that lies between the two rows; a task of an array, and a job of a moment, has none before."""
    if row.end is not None:
        return "ended" if before is None or before.end is None else ""
    started = row.state in RUNNING and row.start is not None
    return "started" if started and (before is None or before.start is None) else ""


def sentence(kind: str, row: JobRow) -> str:
    """One line about one job."""
    name = f"job {row.label} {printable(row.name)}".rstrip()
    if kind == "started":
        return f"{name} has started on {row.node_list}"
    return f"{name} has ended: {how_ended(row)}"


def bundle(news: Sequence[tuple[str, JobRow]]) -> list[str]:
    """Lines for all that came together."""
    if len(news) <= MOST_TOLD:
        return [sentence(kind, row) for kind, row in news]
    counts = {kind: sum(each == kind for each, _ in news) for kind in ("started", "ended")}
    return [f"{plural(count, 'job')} {kind}" for kind, count in counts.items() if count]


def desktop_sequence(words: str, *, in_tmux: bool) -> str:
    """OSC 9 with these words, and a bell for terminals without. tmux hands it on as it is (allow-passthrough), and minds the bell."""
    told = f"\x1b]9;{printable(words[:MAX_CHARACTERS])}\x07"
    if in_tmux:
        told = "\x1bPtmux;" + told.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return told + "\x07"
