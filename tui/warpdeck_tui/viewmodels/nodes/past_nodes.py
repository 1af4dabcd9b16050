"""The cluster as it was at a moment: how one moves through time, and what is said of what is known of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from warpdeck.notation.values.durations import roughly
from warpdeck.protocol.node_rows import PastNodeRow
from warpdeck_tui.viewmodels.cells import Line, age, fact

STEP_S = 600.0
"""How far one key goes: a night in fifty presses, and no job of consequence is between two."""
FINE_S = 60.0
"""How far the finer key goes: as finely as agents keep a whole day."""
MOST_S = 30 * 86_400.0
"""Nobody remembers what happened earlier, and each moment asks the store."""
WEEK_S = 6 * 86_400.0
"""Longer ago a day of the week says too little."""


def moved(at: float | None, steps: int, now: float, *, step_s: float = STEP_S) -> float | None:
    """The moment so many steps further, on round ones; None is now."""
    here = now if at is None else at
    wanted = (here // step_s + steps + (1 if steps < 0 and here % step_s else 0)) * step_s
    wanted = max(wanted, (now - MOST_S) // step_s * step_s)
    return None if wanted >= now else wanted


def clock_words(at: float, now: float) -> str:
    """ "Sat 03:12", "Sat 7 Nov 03:12" of what is longer ago; with seconds where there are any."""
    day = "%a %-d %b" if now - at > WEEK_S else "%a"
    return time.strftime(f"{day} %H:%M{':%S' if at % 60 else ''}", time.localtime(at))


def moment_words(nodes: Sequence[PastNodeRow], at: float, now: float) -> str:
    """ "as it was on Sat 03:12, 5h02 ago, 2 of 8 nodes not known, means of 60 s"."""
    words = [f"as it was on {clock_words(at, now)}", f"{age(now - at)} ago"]
    steps = sorted({node.step_s for node in nodes if node.step_s})
    unknown = sum(bool(node.unknown) for node in nodes)
    if unknown:
        words.append(f"{unknown} of {len(nodes)} nodes not known" if steps else "no readings are known")
    if steps:
        words.append(f"means of {' and '.join(roughly(step_s) for step_s in steps)}")
    return ", ".join(words)


def past_lines(node: PastNodeRow, now: float) -> list[Line]:
    """When and how finely it was measured, and what is not known."""
    lines: list[Line] = []
    if node.begin is not None and node.step_s:
        began = time.strftime("%H:%M:%S", time.localtime(node.begin))
        lines.append(fact("measured", f"means of {roughly(node.step_s)} from {began} on"))
    unknown = unknown_words(node, now)
    return [*lines, fact("not known", unknown, "warn")] if unknown else lines


def unknown_words(node: PastNodeRow, now: float) -> str:
    """ "whether it was drained or down; nothing was measured then; it is known from Sat 09:14 on"; "" where all is known."""
    since = "" if node.since is None else f"; it is known from {clock_words(node.since, now)} on"
    measured = [f"{node.unknown}{since}"] if node.unknown else []
    return "; ".join([*node.untold, *measured])
