"""Parses signals (USR1, SIGUSR1 or 10) and --signal=[R][B:]SIG[@SECONDS], the warning before the time
limit.
"""

from __future__ import annotations

import re
import signal
from typing import Any

from warpdeck.base.errors import UserError

MAX_SIGNAL = 64
MAX_DIGITS = 9
DEFAULT_LEAD_S = 60
MAX_LEAD_S = 65_535
"""Slurm's own limit, because it stores the value in 16 bits."""
_WARNING = re.compile(r"(?:(b|r|br|rb):)?(\w+)(?:@(\d{0,9}))?", re.IGNORECASE)


def parse_signal(text: str) -> int:
    """Return the number of a signal given by name or number. Raises UserError."""
    if text.isdecimal() and 0 < int(text[:MAX_DIGITS]) <= MAX_SIGNAL:
        return int(text)
    try:
        return int(signal.Signals["SIG" + text.upper().removeprefix("SIG")])
    except KeyError:
        raise UserError(f"there is no signal {text}", "write a name such as USR1 or TERM") from None


def parse_warning(text: str) -> dict[str, Any]:
    """Return the warning in the JSON form of `model.WarnSignal`. Raises UserError."""
    match = _WARNING.fullmatch(text)
    if match is None:
        raise UserError(
            f"--signal={text} is not understood", "write [B:]SIGNAL[@SECONDS], such as B:USR1@120"
        )
    before_s = DEFAULT_LEAD_S if match[3] is None else int(match[3] or 0)
    if before_s > MAX_LEAD_S:
        raise UserError(f"--signal={text}: {before_s} s is too early", f"write at most {MAX_LEAD_S} seconds")
    where = (match[1] or "").upper()
    return {"number": parse_signal(match[2]), "before_s": before_s, "batch_only": "B" in where}


def spans_reservation(text: str) -> bool:
    """Return whether the value has Slurm's R: flag (the job may start although a reservation begins before
    its end).
    """
    return "R" in text.rpartition(":")[0].upper()
