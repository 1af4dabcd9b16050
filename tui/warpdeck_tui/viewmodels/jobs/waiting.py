"""Why a job waits, in full and in short, and its place in line.

The scheduler's sentence begins with the need: "needs 4 GPUs on one node; best is gpu05 with 0 free". Many jobs of a queue
share such a sentence, so lists show the place in line first: "#2 in line; best is gpu05 with 0 free".
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from warpdeck.protocol.job_rows import JobRow, WhyRow
from warpdeck_tui.viewmodels.cells import left
from warpdeck_tui.widgets.cells import printable

from .order import rank

IN_LINE = frozenset(("Resources", "Priority", "ReqNodeNotAvail", "None", ""))
"""Reason codes of jobs that wait for resources only. Jobs with other codes have no place in line."""
MOST_RANKED = 5_000
"""Largest number of waiting jobs of which the places are computed, which takes a few milliseconds."""
FRESH_S = 3.0
"""Seconds for which the computed places are used again."""
_RELEASE = re.compile(r"`warpdeck release[^`]*` releases it")
NONE_KNOWN: Mapping[int, int] = {}


class LinePlaces:
    """The places in line of the waiting jobs, by job id. They are computed again when they are older than FRESH_S."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._at = -FRESH_S

    def of(self, jobs: Mapping[int, JobRow], *, now: float) -> Mapping[int, int]:
        """Return the place of each job in the line of its partition. The first place is 1."""
        if abs(now - self._at) >= FRESH_S:
            self._at, self._places = now, places_in_line(jobs)
        return self._places


def places_in_line(jobs: Mapping[int, JobRow]) -> dict[int, int]:
    """Return the places of the jobs that wait for resources. For a very long queue, return none."""
    waiting = [
        row for row in jobs.values() if row.why is not None and row.why.code in IN_LINE and row.end is None
    ]
    if len(waiting) > MOST_RANKED:
        return {}
    counts: dict[str, int] = {}
    found: dict[int, int] = {}
    for row in sorted(waiting, key=rank):
        counts[row.partition] = counts.get(row.partition, 0) + 1
        found[row.id] = counts[row.partition]
    return found


def why_words(why: WhyRow) -> str:
    """Return the reason as the scheduler says it, with a key of the app in place of a command."""
    words = printable(why.sentence or why.code)
    return _RELEASE.sub("U releases it", words) if "`" in words else words


def whole_reason(why: WhyRow, place: int = 0, *, now: float) -> str:
    """Return the reason with the place in line and the expected time.

    An example is "needs 4 GPUs on one node; best is gpu05 with 0 free; #2 in line; about 14:20 (in 2h10)".
    """
    words = [why_words(why)]
    if place:
        words.append(f"#{place} in line")
    if why.expected_start is not None:
        wait, clock = (
            left(why.expected_start, now),
            time.strftime("%H:%M", time.localtime(why.expected_start)),
        )
        words.append(f"about {clock} (in {wait})" if wait else "soon")
    return "; ".join(words)


def short_reason(why: WhyRow, place: int = 0) -> str:
    """Return the reason for a narrow column: the place in line, then what is missing.

    The need itself is left out, because other columns show it.
    """
    words = why_words(why)
    need, _, missing = words.partition("; ")
    if need.startswith("needs ") and missing:
        words = missing
    return f"#{place} in line; {words}" if place else words
