"""The choice of the queue order from evidence: what each order of a small set would have given.

The data:

* `ORDERS` names the orders of the set, as changes of the site's settings.
* Evidence is a list of windows, oldest first. A window holds, for each order, the figures of the same jobs: those
  submitted in this part of the site's past, replayed under the order by the real planner. A job that has not started
  counts with its wait so far, so an order cannot look good by letting jobs starve.
* `choose` is the only decision function. `warpdeck simulate --policy portfolio` calls it in virtual time.

The objective is the geometric mean of two ratios to EASY: mean wait, and mean bounded slowdown. An order is admissible
if its longest wait is at most a tenth above EASY's. The order in force is replaced only by an admissible order that is
better by a margin over all windows together and better in most of the windows. Without enough evidence the order in
force stays, which is `START` at first. If the order in force is not admissible, EASY replaces it, or the best order if
it is better than EASY in most of the windows. The best order of the past is followed because load and users of a site
change slowly (Deng, Song, Ren and Iosup 2013; Gaussier, Lelong, Reis and Trystram 2018).

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from warpdeck.policy.input.settings import PlannerSettings

EASY = "easy"
"""The order against which all others are judged, and to which a site returns if the evidence speaks against the order
in force.
"""
ORDERS: dict[str, dict[str, object]] = {
    EASY: {"queue_order": "submission", "backfill_order": "priority", "reservation_holds": "start"},
    "shortest": {"queue_order": "submission", "backfill_order": "shortest"},
    "response": {"queue_order": "response", "backfill_order": "shortest", "overdue_share": 0.5},
    "response-wide": {"queue_order": "response", "backfill_order": "shortest", "overdue_share": 1.0},
}
"""The orders of the set: submission with EASY backfill, the same with the shortest job first in backfill, and the
response ratio with two shares of the longest wait."""
START = "shortest"
"""The order in force without evidence. No measurement has shown that it is the safest: see `tests.bench.portfolio`."""
LEAST_WINDOWS, LEAST_JOBS = 4, 100
"""Less evidence than this is thin."""
MARGIN = 0.03
"""An order replaces the one in force only if its score is better by this share."""
MOST_WINDOWS = 0.6
"""Share of the windows in which the new order must be better."""
LONGEST = 1.1
"""Largest ratio of an admissible order's longest wait to EASY's."""
NO_WAIT_S = 10.0
"""Added to both waits of a ratio. Waits of a few seconds do not matter."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The waits and slowdowns of the jobs of one window under one order."""

    jobs: int
    mean_wait_s: float
    mean_slowdown: float
    max_wait_s: float


Window = Mapping[str, Figures]
"""Order -> figures. All orders of a window are judged by the same jobs."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The order to use from now on, and a sentence that says why."""

    order: str
    reason: str


def settings_for(order: str, site: PlannerSettings, *, wait_bound_s: float | None) -> PlannerSettings:
    """Return the site's settings with this order, and the bound on waits unless the order is EASY.

    A bound that the site has set itself applies to every order.
    """
    bounds = [
        each for each in (site.wait_bound_s, wait_bound_s if order != EASY else None) if each is not None
    ]
    return msgspec.structs.replace(
        site, backfill="easy", keep_reserved=True, wait_bound_s=min(bounds, default=None), **ORDERS[order]
    )


def choose(windows: Sequence[Window], *, in_force: str) -> Choice:
    """Return the order that the evidence supports."""
    jobs = sum(window[EASY].jobs for window in windows)
    if len(windows) < LEAST_WINDOWS or jobs < LEAST_JOBS:
        return Choice(
            order=in_force, reason=f"only {jobs:,} jobs in {len(windows)} windows: not enough to judge"
        )
    most_s = LONGEST * _longest(windows, EASY) + NO_WAIT_S
    admissible = [order for order in ORDERS if _longest(windows, order) <= most_s]
    scores = {order: score(windows, order) for order in admissible}
    best = min(scores, key=lambda order: (scores[order], order))
    if in_force not in scores:
        longest = _longest(windows, in_force) / max(1.0, _longest(windows, EASY))
        return Choice(
            order=best if _is_better(windows, best, EASY) else EASY,
            reason=f"the longest wait of {in_force} is {longest:.2f} times that of EASY",
        )
    gain = 1 - scores[best] / scores[in_force]
    if best == in_force or gain < MARGIN or not _is_better(windows, best, in_force):
        return Choice(order=in_force, reason=f"no order is better than {in_force} by a margin")
    return Choice(order=best, reason=f"{best} is {gain:.0%} better than {in_force} over {jobs:,} jobs")


def score(windows: Sequence[Window], order: str) -> float:
    """Return the objective: the geometric mean of the ratios to EASY, over all jobs. Smaller is better."""
    wait, easy_wait = (_mean(windows, each, "mean_wait_s") + NO_WAIT_S for each in (order, EASY))
    slowdown, easy_slowdown = (_mean(windows, each, "mean_slowdown") for each in (order, EASY))
    return math.sqrt(wait / easy_wait * slowdown / easy_slowdown)


def _is_better(windows: Sequence[Window], order: str, other: str) -> bool:
    """Return whether the order is better in most of the windows."""
    better = sum(score([window], order) <= score([window], other) for window in windows)
    return order == other or better >= MOST_WINDOWS * len(windows)


def _mean(windows: Sequence[Window], order: str, name: str) -> float:
    jobs = sum(window[order].jobs for window in windows)
    total = sum(float(getattr(window[order], name)) * window[order].jobs for window in windows)
    return total / max(1, jobs)


def _longest(windows: Sequence[Window], order: str) -> float:
    return max(window[order].max_wait_s for window in windows)
