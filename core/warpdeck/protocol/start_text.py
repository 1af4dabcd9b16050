"""When a job starts, in words: one line for every place that tells it. Standard library only, for the command line."""

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
    """ "starts now on n03", "starts about 14:20 (in 2 h 10 min)", "starts at a time that cannot be told", "never: ..."."""
    if verdict == "now":
        return f"starts now on {node_list}"
    if verdict == "never":
        return f"never: {sentence}"
    if expected_start is None:
        return "starts at a time that cannot be told" + (f": {untold}" if untold else "")
    guessed = ", by the pace of the work ahead of it" if rough else ""
    return f"starts {about(expected_start, now)}{guessed}"


def about(at_unix: float, now: float) -> str:
    """ "about 14:20 (in 2 h 10 min)", with the day unless it is within a day."""
    local = time.localtime(at_unix)
    far = at_unix - now >= DAY_S
    clock = time.strftime("%a %d %b %H:%M" if far else "%H:%M", local)
    wait = roughly(at_unix - now)
    return f"about {clock} (in {wait})" if at_unix > now else f"about {clock} (any moment)"
