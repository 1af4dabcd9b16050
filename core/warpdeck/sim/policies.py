"""The policies of `warpdeck simulate --policy`: textbook policies for comparison, and the site's own policy.
Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.policy import PlannerSettings, Weights

PLAIN = PlannerSettings(queue_order="submission", backfill_order="priority", preempt_by="off", reclaim=False)
"""First come, first served, with all other features off."""

TEXTBOOK: dict[str, PlannerSettings] = {
    "fcfs": msgspec.structs.replace(PLAIN, backfill="none"),
    "fcfs-easy": msgspec.structs.replace(PLAIN, backfill="easy", reservation_holds="start"),
    "conservative": msgspec.structs.replace(PLAIN, backfill="conservative"),
}
PORTFOLIO = "portfolio"
"""The order is chosen from what each order of a small set would have given (see `sim.portfolio`)."""
NAMES = (*TEXTBOOK, "default", PORTFOLIO)


WEIGHTS = tuple(name for name in Weights.__struct_fields__ if name != "tres")
MAX_WEIGHT = 10**9


def weighted(settings: PlannerSettings, texts: Sequence[str]) -> PlannerSettings:
    """Return the settings with other priority weights, each given as NAME=NUMBER. Raises UserError."""
    numbers = {}
    for text in texts:
        name, sign, number = text.partition("=")
        if name not in WEIGHTS or not sign or not number.isdecimal() or int(number[:12]) > MAX_WEIGHT:
            raise UserError(
                f"{text[:40]!r} is not a weight",
                f"write NAME=NUMBER with one of {', '.join(WEIGHTS)}",
                exit_code=2,
            )
        numbers[name] = int(number)
    return msgspec.structs.replace(settings, weights=msgspec.structs.replace(settings.weights, **numbers))


def settings_of(name: str, site: PlannerSettings) -> PlannerSettings:
    """Return the settings of a policy; `default` is the site's own, and the portfolio starts from it.

    Forecasts that no decision needs are switched off.
    """
    return msgspec.structs.replace(TEXTBOOK.get(name, site), max_forecasts=0)
