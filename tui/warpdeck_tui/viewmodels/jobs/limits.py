"""Changes of a job's time limit.

This module parses the user's text, creates the equivalent command line, and collects the previous limits for
undo.
"""

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
    """Parse a limit as `scontrol update` does: a new limit or, after + or -, a difference. Raises
    UserError.
    """
    if text[:1] not in ("+", "-") or text == "-1":
        return JobChange(time_limit_s=parse_limit(text))
    more_s = parse_limit(text[1:])
    if not more_s:
        raise UserError(f"{text!r} does not change the time limit", "Enter +MINUTES or +H:MM:SS")
    return JobChange(time_limit_more_s=more_s if text[0] == "+" else -more_s)


def limit_command(names: Sequence[str], text: str) -> str:
    return shlex.join(["scontrol", "update", f"JobId={','.join(names)}", f"TimeLimit={text}"])


def limit_title(names: Sequence[str]) -> str:
    what = f"job {names[0]}" if len(names) == 1 else plural(len(names), "job")
    return f"Time limit of {what}: {EXAMPLES}"


def present_limit(rows: Iterable[JobRow]) -> str:
    """Return the common limit of these jobs, or "" if it differs or is not set."""
    limits = {row.time_limit_s for row in rows}
    return "" if len(limits) > 1 or None in limits else format_duration(limits.pop())


def limits_before(rows: Iterable[JobRow]) -> dict[int, list[str]]:
    """Return the previous limits with their jobs, or {} if a job had no limit of its own.

    In that case it is unknown whether the job requested none or the partition set one.
    """
    found: dict[int, list[str]] = {}
    for row in rows:
        if row.time_limit_s is None:
            return {}
        found.setdefault(row.time_limit_s, []).extend(names_of(row))
    return found
