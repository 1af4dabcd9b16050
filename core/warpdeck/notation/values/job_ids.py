"""Job ids as users write them and squeue prints them: 12, 12_3, 12_[3-5,9], and 12+1 for a component of a
heterogeneous job.

The components of a job have consecutive ids, so 12+1 is job 13 if that is a component of job 12. After a
lookup, the caller checks this with `may_mean`.
"""

from __future__ import annotations

import re

from warpdeck.base.errors import UserError

from .arrays import parse_array

TaskRanges = tuple[tuple[int, int, int], ...]
"""Array tasks as (first, last, step), in the form of `model.Ranges`."""
_ID = re.compile(r"(\d{1,18})(?:_(?:(\d{1,9})|\[([^\[\]]+)\])|\+(\d{1,3}))?")
_HINT = "write 12, 12_3 for a task of an array, 12_[3-5,9], or 12+1 for a component"


def parse_job_id(text: str) -> tuple[int, TaskRanges | None]:
    """Return (job number, tasks); tasks is None if the id names none. Raises UserError."""
    match = _ID.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{text!r} is not a job ID", _HINT, code="no_job_id")
    number, task, ranges = int(match[1]) + int(match[4] or 0), match[2], match[3]
    if task is not None:
        return number, ((int(task), int(task), 1),)
    if ranges is None:
        return number, None
    try:
        return number, tuple(parse_array(ranges)[0])
    except UserError as error:
        raise UserError(f"{text!r} is not a job ID", _HINT, code="no_job_id") from error


def may_mean(text: str, label: str) -> bool:
    """Return whether the id can mean the job with this label, which was found by number. 12+0 also means the
    ordinary job 12.
    """
    return "+" not in text or text.strip() in (label, f"{label}+0")


def is_job_id(text: str) -> bool:
    """Return whether `parse_job_id` accepts the text."""
    try:
        parse_job_id(text)
    except UserError:
        return False
    return True
