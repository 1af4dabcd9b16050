"""The policies that `warpdeck simulate --policy` names: the textbook ones to compare with, and the site's own. Pure."""

from __future__ import annotations

import msgspec

from warpdeck.policy import Settings

PLAIN = Settings(queue_order="submission", backfill_order="priority", preempt_by="off", reclaim=False)
"""First come first served; what is not named is off."""

TEXTBOOK: dict[str, Settings] = {
    "fcfs": msgspec.structs.replace(PLAIN, backfill="none"),
    "fcfs-easy": msgspec.structs.replace(PLAIN, backfill="easy", reservation_holds="start"),
    "conservative": msgspec.structs.replace(PLAIN, backfill="conservative"),
}
NAMES = (*TEXTBOOK, "default")


def settings_of(name: str, site: Settings) -> Settings:
    """The settings of a policy by name; `default` is the site's own. None explains or forecasts more than it decides."""
    return msgspec.structs.replace(TEXTBOOK.get(name, site), max_forecasts=0)
