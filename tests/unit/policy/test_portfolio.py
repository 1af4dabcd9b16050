"""The choice of the order from what each order would have given."""

from __future__ import annotations

import msgspec
import pytest

from warpdeck.policy import PlannerSettings
from warpdeck.policy.portfolio import EASY, ORDERS, START, Figures, Window, choose, settings_for

SAME = Figures(jobs=100, mean_wait_s=1000.0, mean_slowdown=20.0, max_wait_s=50_000.0)


def window(**changed: dict[str, float]) -> Window:
    """Return a window in which only the named orders differ from EASY. "_" stands for "-" in a name."""
    found = dict.fromkeys(ORDERS, SAME)
    for order, fields in changed.items():
        found[order.replace("_", "-")] = msgspec.structs.replace(SAME, **fields)
    return found


BETTER = {"mean_wait_s": 700.0, "mean_slowdown": 12.0}


@pytest.mark.parametrize("windows", [[], [window(shortest=BETTER)] * 3])
def test_thin_evidence_changes_nothing(windows: list[Window]) -> None:
    assert choose(windows, in_force=EASY).order == EASY
    assert choose(windows, in_force=START).order == START


def test_the_better_order_replaces_the_one_in_force() -> None:
    choice = choose([window(response=BETTER)] * 5, in_force=EASY)
    assert choice.order == "response"
    assert choice.reason == "response is 35% better than easy over 500 jobs"


def test_a_small_gain_is_no_reason_to_switch() -> None:
    small = {"mean_wait_s": 980.0, "mean_slowdown": 19.8}
    assert choose([window(response=small)] * 5, in_force=EASY).order == EASY


def test_a_gain_in_few_windows_is_no_reason_to_switch() -> None:
    worse = {"mean_wait_s": 1050.0, "mean_slowdown": 21.0}
    windows = [window(response={"mean_wait_s": 10.0, "mean_slowdown": 1.0}), *[window(response=worse)] * 4]
    assert choose(windows, in_force=EASY).order == EASY


def test_an_order_with_a_long_longest_wait_is_not_admissible() -> None:
    starving = BETTER | {"max_wait_s": 56_000.0}
    windows = [window(response=BETTER)] * 4 + [window(response=starving)]
    assert choose(windows, in_force=EASY).order == EASY
    choice = choose(windows, in_force="response")
    assert choice.order == EASY
    assert choice.reason == "the longest wait of response is 1.12 times that of EASY"


def test_a_good_order_replaces_an_inadmissible_one() -> None:
    windows = [window(response=BETTER | {"max_wait_s": 90_000.0}, shortest=BETTER)] * 5
    assert choose(windows, in_force="response").order == "shortest"


def test_the_bound_on_waits_of_the_site_applies_to_every_order() -> None:
    site = PlannerSettings(wait_bound_s=500.0)
    assert settings_for(EASY, site, wait_bound_s=100.0).wait_bound_s == 500.0
    assert settings_for("shortest", site, wait_bound_s=100.0).wait_bound_s == 100.0
    assert settings_for(EASY, PlannerSettings(), wait_bound_s=100.0).wait_bound_s is None
