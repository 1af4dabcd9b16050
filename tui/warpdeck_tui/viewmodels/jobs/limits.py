"""Another time limit for jobs: what a line of text means, the command line that does the same, and what it was before."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from warpdeck.base.errors import UserError
from warpdeck.model.change import JobChange
from warpdeck.notation.values.durations import format_duration, parse_limit
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import plural

from .queue import names_of

EXAMPLES = "8:00:00, +2:00:00, UNLIMITED"


def limit_change(text: str) -> JobChange:
    """As `scontrol update` takes it: a limit, or with + or - how much longer or shorter. Raises UserError."""
    if text[:1] not in ("+", "-") or text == "-1":
        return JobChange(time_limit_s=parse_limit(text))
    more_s = parse_limit(text[1:])
    if not more_s:
        raise UserError(f"{text!r} changes nothing", "write +MINUTES or +H:MM:SS")
    return JobChange(time_limit_more_s=more_s if text[0] == "+" else -more_s)


def limit_command(names: Sequence[str], text: str) -> str:
    return shlex.join(["scontrol", "update", f"JobId={','.join(names)}", f"TimeLimit={text}"])


def limit_title(names: Sequence[str]) -> str:
    what = f"job {names[0]}" if len(names) == 1 else plural(len(names), "job")
    return f"Time limit of {what}: {EXAMPLES}"


def present_limit(rows: Iterable[JobRow]) -> str:
    """That of all of them, "" where they have several or none was asked for."""
    limits = {row.time_limit_s for row in rows}
    return "" if len(limits) > 1 or None in limits else format_duration(limits.pop())


def limits_before(rows: Iterable[JobRow]) -> dict[int, list[str]]:
    """Limit -> the jobs that had it; {} where one had none: whether it asked for none, or its partition gave it one, nobody knows."""
    found: dict[int, list[str]] = {}
    for row in rows:
        if row.time_limit_s is None:
            return {}
        found.setdefault(row.time_limit_s, []).extend(names_of(row))
    return found
