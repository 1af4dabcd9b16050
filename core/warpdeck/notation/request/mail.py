"""--mail-type: the events of a job for which mail is sent. The names are those of sbatch(1)."""

from __future__ import annotations

from warpdeck.notation.verdict.notices import MAIL_BITS, mail_bits

SHARES = {"TIME_LIMIT_50": 0.5, "TIME_LIMIT_80": 0.8, "TIME_LIMIT_90": 0.9}
"""Events that occur when this share of the time limit has passed."""


def parse_mail_types(text: str) -> list[str]:
    """Return the events that --mail-type names; [] for NONE. Raises UserError."""
    bits = mail_bits(text)
    return [name for name, bit in MAIL_BITS.items() if bits & bit]
