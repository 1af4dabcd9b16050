"""How long a job is likely to run: the mean of its user's last two run times, never more than its limit. Pure.

The rule is Tsafrir, Etsion and Feitelson's (2007): it is as good as far heavier ones, since users repeat themselves. Some do
not, and some ask for what they need: of each user is kept how far the rule and the limits were from the truth, as factors
and the latest counting most, and while the limits are nearer nothing is predicted.

A prediction orders backfill and tells people what to expect. It promises nothing: reservations rest on limits alone.
"""

from __future__ import annotations

import math

import msgspec

REMEMBERED = 2
"""Run times kept of each user."""
MAX_USERS = 100_000
"""Users remembered; the one who ended a job longest ago is forgotten first."""
KEPT = 0.9
"""Of the errors so far, with every job that ends: about the last ten count."""
SHORTEST_S = 10.0
"""Times below this count as this: nobody minds by what factor a few seconds are wrong."""


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


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a user."""

    ran_s: tuple[float, ...] = ()
    """The last run times, the latest last."""
    rule_error: float = 0.0
    limit_error: float = 0.0
    """How far the rule's word and the limits were off: sums of the logarithms of the factors, older ones counting less."""

    def after(self, ran_s: float, limit_s: float | None) -> Past:
        """With one job more."""
        rule_error, limit_error = self.rule_error, self.limit_error
        if self.ran_s and limit_s is not None:
            rule_error = KEPT * rule_error + _factor(min(self.mean_s, limit_s), ran_s)
            limit_error = KEPT * limit_error + _factor(limit_s, ran_s)
        return Past(ran_s=(*self.ran_s, ran_s)[-REMEMBERED:], rule_error=rule_error, limit_error=limit_error)

    @property
    def mean_s(self) -> float:
        """Of the last run times, of which there is at least one."""
        return sum(self.ran_s) / len(self.ran_s)


class Predictor:
    """What is remembered of each user's jobs. Feed it the ends in the order in which they happen."""

    def __init__(self) -> None:
        self._past: dict[str, Past] = {}

    def remember(self, user: str, ran_s: float, *, limit_s: float | None) -> None:
        """A job of this user ended by itself or at its limit after so many seconds. Nobody's jobs ("") are not remembered."""
        if not user:
            return
        self._past[user] = self._past.pop(user, Past()).after(ran_s, limit_s)
        if len(self._past) > MAX_USERS:
            del self._past[next(iter(self._past))]

    def known(self, user: str) -> Past | None:
        """What is remembered of a user."""
        return self._past.get(user)

    def restore(self, user: str, known: Past | None) -> None:
        """Puts back what was known before."""
        self._past.pop(user, None)
        if known is not None:
            self._past[user] = known

    def predict(self, user: str, *, limit_s: float | None) -> float | None:
        """Seconds, or None where nothing of this user is known, or their limits are the better word."""
        past = self._past.get(user)
        if past is None:
            return None
        if limit_s is None:
            return past.mean_s
        return None if past.limit_error < past.rule_error else min(past.mean_s, limit_s)


def _factor(said_s: float, true_s: float) -> float:
    """The logarithm of the factor between the two, whichever is larger."""
    return abs(math.log(max(said_s, SHORTEST_S) / max(true_s, SHORTEST_S)))
