"""How long a job is likely to run: the mean of its user's last two run times, never more than its limit. Pure.

The rule is Tsafrir, Etsion and Feitelson's (2007): it is as good as far heavier ones, since users repeat themselves. A
prediction orders backfill and tells people what to expect. It promises nothing: reservations rest on limits alone.
"""

from __future__ import annotations

import msgspec

REMEMBERED = 2
"""Run times kept of each user."""
MAX_USERS = 100_000
"""Users remembered; the one who ended a job longest ago is forgotten first."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What was said when the job was submitted, and what came true. Seconds."""

    predicted_s: float
    limit_s: float
    ran_s: float

    @property
    def error_s(self) -> float:
        """Predicted less true: positive where the job ended sooner."""
        return self.predicted_s - self.ran_s

    @property
    def limit_error_s(self) -> float:
        """The same for the limit: what backfill would have had to go by."""
        return self.limit_s - self.ran_s


class Predictor:
    """What is remembered of each user's jobs. Feed it the ends in the order in which they happen."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, ...]] = {}

    def remember(self, user: str, ran_s: float) -> None:
        """A job of this user ended by itself or at its limit after so many seconds. Nobody's jobs ("") are not remembered."""
        if not user:
            return
        known = self._last.pop(user, ())
        self._last[user] = (*known, ran_s)[-REMEMBERED:]
        if len(self._last) > MAX_USERS:
            del self._last[next(iter(self._last))]

    def known(self, user: str) -> tuple[float, ...]:
        """The run times remembered of a user, the latest last."""
        return self._last.get(user, ())

    def restore(self, user: str, known: tuple[float, ...]) -> None:
        """Puts back what was known before."""
        self._last.pop(user, None)
        if known:
            self._last[user] = known

    def predict(self, user: str, *, limit_s: float | None) -> float | None:
        """Seconds, or None where nothing of this user is known."""
        known = self._last.get(user)
        if not known:
            return None
        mean = sum(known) / len(known)
        return mean if limit_s is None else min(mean, limit_s)
