"""Changes of the priority of waiting jobs.

This module parses the user's text, creates the equivalent command line, and collects the previous values for
undo.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.model.change import JobChange
from warpdeck.protocol.site_rows import PriorityRow
from warpdeck_tui.viewmodels.cells import plural

EXAMPLES = "nice=100 lowers it; 5000 replaces the computed value"
_GIVEN = re.compile(r"(?:(nice|priority)=)?([+-]?\d{1,9})", re.IGNORECASE)


class Before(NamedTuple):
    """A previous priority. If `number` is None, it was the computed priority minus `nice`."""

    number: int | None
    nice: int


def priority_change(text: str) -> JobChange:
    """Parse a priority as `scontrol update` does: nice=N, or a number. Raises UserError."""
    found = _GIVEN.fullmatch(text)
    if found is None:
        raise UserError(f"Invalid priority {text!r}", "Enter nice=100, or a number such as 5000")
    if (found[1] or "").lower() == "nice":
        return JobChange(nice=int(found[2]))
    if int(found[2]) <= 0:
        raise UserError(
            f"Priority {text!r} would hold the job", "Enter a number above 0, or press H to hold the job"
        )
    return JobChange(priority=int(found[2]))


def priority_command(names: Sequence[str], change: JobChange) -> str:
    what = f"Nice={change.nice}" if isinstance(change.nice, int) else f"Priority={change.priority}"
    return shlex.join(["scontrol", "update", f"JobId={','.join(names)}", what])


def priority_title(names: Sequence[str]) -> str:
    what = f"job {names[0]}" if len(names) == 1 else plural(len(names), "job")
    return f"Priority of {what}: {EXAMPLES}"


def present_priority(rows: Iterable[PriorityRow]) -> str:
    """Return the common priority in the notation of the input, or "" if the jobs differ."""
    found = {f"nice={row.nice}" if not row.set_by_hand else str(row.priority) for row in rows}
    return found.pop() if len(found) == 1 else ""


def grouped(rows: Iterable[tuple[str, PriorityRow]]) -> dict[Before, list[str]]:
    """Group the jobs by their previous priority."""
    found: dict[Before, list[str]] = {}
    for name, row in rows:
        found.setdefault(Before(row.priority if row.set_by_hand else None, row.nice), []).append(name)
    return found
