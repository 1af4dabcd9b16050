"""The events of --mail-type."""

from __future__ import annotations

from .slurm_error import invalid

_EVENTS = (
    *("ARRAY_TASKS", "INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT"),
    *("TIME_LIMIT_50", "TIME_LIMIT_80", "TIME_LIMIT_90", "TIME_LIMIT"),
)
_ALL = ("INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT")
MAIL_SHARES = {"TIME_LIMIT_50": 0.5, "TIME_LIMIT_80": 0.8, "TIME_LIMIT_90": 0.9}
"""Events that occur when this share of the time limit has passed."""


def parse_mail_types(text: str) -> list[str]:
    """Return the events that --mail-type names, in Slurm's order; [] for NONE. Raises SlurmError.

    Invalid words are ignored unless all words are invalid.
    """
    found: set[str] = set()
    for word in filter(None, text.upper().split(",")):
        if word == "NONE":
            return []
        found |= set(_ALL) if word == "ALL" else {word} & set(_EVENTS)
    if not found:
        raise invalid("mail-type", "write such as BEGIN,END,FAIL or ALL")
    return in_order(found)


def in_order(names: set[str]) -> list[str]:
    """Return the events in Slurm's order."""
    return [name for name in _EVENTS if name in names]
