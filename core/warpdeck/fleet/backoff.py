"""The pauses between attempts to connect."""

from __future__ import annotations

import random

BACKOFF_FIRST_S = 0.5
BACKOFF_LAST_S = 30.0
"""Maximum seconds between two attempts.

Each pause is extended by up to half, so that nodes do not reconnect all at once.
"""


def backoff_s(attempt: int, rng: random.Random) -> float:
    """Return the pause in seconds after an attempt. Attempts are counted from 0."""
    pause_s = min(BACKOFF_FIRST_S * 2.0 ** min(attempt, 32), BACKOFF_LAST_S)
    return pause_s * (1.0 + rng.random() / 2)
