"""Formats the expected start of a job as one line of text.

It uses only the standard library, because the command line needs it.
"""

from __future__ import annotations

import time

from warpdeck.notation.values.durations import roughly

DAY_S = 86_400


def starts_in_words(
    verdict: str,
    *,
    node_list: str,
    expected_start: float | None,
    sentence: str,
    now: float,
    rough: bool = False,
    untold: str = "",
) -> str:
    """Return the start as text, such as "starts now on n03" or "starts about 14:20 (in 2 h 10 min)".

    Other forms are "expected start unknown" and "never: ...".
    """
    if verdict == "now":
        return f"starts now on {node_list}"
    if verdict == "never":
        return f"never: {sentence}"
    if expected_start is None:
        return "expected start unknown" + (f": {untold}" if untold else "")
    guessed = ", estimated from the jobs ahead of it" if rough else ""
    return f"starts {about(expected_start, now)}{guessed}"


def about(at_unix: float, now: float) -> str:
    """Return a time as text, such as "about 14:20 (in 2 h 10 min)".

    The day is included if the time is a day or more away.
    """
    local = time.localtime(at_unix)
    far = at_unix - now >= DAY_S
    clock = time.strftime("%a %d %b %H:%M" if far else "%H:%M", local)
    wait = roughly(at_unix - now)
    return f"about {clock} (in {wait})" if at_unix > now else f"about {clock} (any moment)"
