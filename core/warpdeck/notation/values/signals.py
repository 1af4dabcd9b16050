"""Signals by name or number (USR1, SIGUSR1, 10), and --signal=[R][B:]SIGNAL[@SECONDS]: the signal that a job gets
before its time limit.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

from warpdeck.base.errors import UserError

from .numbers import is_blank, strtol
from .slurm_error import invalid

MAX_SIGNAL = 64
MAX_DIGITS = 9
DEFAULT_LEAD_S = 60
MAX_LEAD_S = 65_535
"""Slurm's own limit, because it stores the value in 16 bits."""
_SLURM_NAMES = (
    *("HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "URG"),
    *("CONT", "STOP", "TSTP", "TTIN", "TTOU", "XCPU"),
)
"""The signal names that Slurm knows."""
_NUMBERS = {name: int(signal.Signals["SIG" + name]) for name in _SLURM_NAMES}
_NAMES = {number: name for name, number in _NUMBERS.items()}


def parse_signal(text: str) -> int:
    """Return the number of a signal given by name or number. Raises UserError."""
    if text.isdecimal() and 0 < int(text[:MAX_DIGITS]) <= MAX_SIGNAL:
        return int(text)
    try:
        return int(signal.Signals["SIG" + text.upper().removeprefix("SIG")])
    except KeyError:
        raise UserError(f"there is no signal {text}", "write a name such as USR1 or TERM") from None


def signal_number(name: str) -> int:
    """Return the number of a signal as Slurm reads its name or number; 0 if it is invalid."""
    number, rest = strtol(name)
    if rest != name:
        return number if is_blank(rest) else 0
    return _NUMBERS.get(name.strip().upper().removeprefix("SIG"), 0)


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number if Slurm has no name for it."""
    return _NAMES.get(number, str(number))


class EndWarning(NamedTuple):
    """The value of --signal."""

    number: int
    before_s: int
    to_batch_shell: bool
    """B: only the batch shell gets the signal."""
    over_reservation: bool
    """R: the job may start although a reservation begins before its end."""


def read_warning(text: str) -> EndWarning:
    """Return the value of --signal. Raises SlurmError."""
    letters, word = "", text
    for letter in ("R", "B", "R"):
        if word[:1].upper() == letter:
            letters, word = letters + letter, word[1:]
    name, at, lead = word.removeprefix(":").partition("@")
    number = signal_number(name) % 2**16
    lead_s, rest = strtol(lead) if at else (DEFAULT_LEAD_S, "")
    if not number or not 0 <= lead_s <= MAX_LEAD_S or rest:
        raise invalid("signal", "write [B:]SIGNAL[@SECONDS], such as B:USR1@120")
    return EndWarning(number, lead_s, "B" in letters, "R" in letters)
