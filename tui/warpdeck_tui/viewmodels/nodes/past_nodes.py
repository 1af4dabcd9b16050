"""The cluster at a past time: moving through time, and texts about the data that are known."""

from __future__ import annotations

import time
from collections.abc import Sequence

from warpdeck.notation.values.durations import roughly
from warpdeck.protocol.node_rows import PastNodeRow
from warpdeck_tui.viewmodels.cells import Line, age, fact

STEP_S = 600.0
"""Seconds per key press. A night takes fifty presses, and no important job fits between two of them."""
FINE_S = 60.0
"""Seconds per press of the finer key, as fine as the measurements that agents keep for a whole day."""
MOST_S = 30 * 86_400.0
"""Longest way back in seconds. Nobody remembers earlier events, and each time queries the store."""
WEEK_S = 6 * 86_400.0
"""Age in seconds from which on the date is shown, because the weekday is ambiguous."""


def moved(at: float | None, steps: int, now: float, *, step_s: float = STEP_S) -> float | None:
    """Return the time after moving by this number of steps, rounded to whole steps. None means now."""
    here = now if at is None else at
    wanted = (here // step_s + steps + (1 if steps < 0 and here % step_s else 0)) * step_s
    wanted = max(wanted, (now - MOST_S) // step_s * step_s)
    return None if wanted >= now else wanted


def clock_words(at: float, now: float) -> str:
    """Return a time, such as "Sat 03:12" or, if it is older, "Sat 7 Nov 03:12".

    Seconds are added if they are not 0.
    """
    day = "%a %-d %b" if now - at > WEEK_S else "%a"
    return time.strftime(f"{day} %H:%M{':%S' if at % 60 else ''}", time.localtime(at))


def moment_words(nodes: Sequence[PastNodeRow], at: float, now: float) -> str:
    """Return a text such as "at Sat 03:12, 5h02 ago, 2 of 8 nodes unknown, averages over 60 s"."""
    words = [f"at {clock_words(at, now)}", f"{age(now - at)} ago"]
    steps = sorted({node.step_s for node in nodes if node.step_s})
    unknown = sum(bool(node.unknown) for node in nodes)
    if unknown:
        words.append(f"{unknown} of {len(nodes)} nodes unknown" if steps else "no data")
    if steps:
        words.append(f"averages over {' and '.join(roughly(step_s) for step_s in steps)}")
    return ", ".join(words)


def past_lines(node: PastNodeRow, now: float) -> list[Line]:
    """Return lines that say when and how finely the node was measured, and which data are unknown."""
    lines: list[Line] = []
    if node.begin is not None and node.step_s:
        began = time.strftime("%H:%M:%S", time.localtime(node.begin))
        lines.append(fact("measured", f"averages over {roughly(node.step_s)} from {began}"))
    unknown = unknown_words(node, now)
    return [*lines, fact("unknown", unknown, "warn")] if unknown else lines


def unknown_words(node: PastNodeRow, now: float) -> str:
    """Return the unknown facts, or "" if there are none.

    An example is "whether it was drained or down; nothing was measured then; data starts at Sat 09:14".
    """
    since = "" if node.since is None else f"; data starts at {clock_words(node.since, now)}"
    measured = [f"{node.unknown}{since}"] if node.unknown else []
    return "; ".join([*node.untold, *measured])
