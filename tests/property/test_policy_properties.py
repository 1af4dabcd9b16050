"""The planner over random sites: what it decides is allowed, whole, within limits, explained, and the same every time."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import recount
from tests.property.sites import NOW, site_of

from warpdeck.policy import Plan, Settings, View, plan

sites = st.randoms(use_true_random=False).map(site_of)
EXAMPLES = 150


def check(view: View, made: Plan, chosen: Settings) -> None:
    recount.nothing_is_held_twice(view, made)
    recount.gangs_are_whole(view, made)
    recount.placements_are_allowed(view, made, NOW)
    recount.no_limit_is_broken(view, made, NOW, chosen)
    recount.everyone_is_accounted_for(view, made)


@settings(max_examples=EXAMPLES)
@given(sites)
def test_whatever_starts_is_whole_allowed_and_within_limits(site: tuple[View, Settings]) -> None:
    view, chosen = site
    check(view, plan(view, NOW, chosen), chosen)


@settings(max_examples=EXAMPLES)
@given(sites, st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_lists(site: tuple[View, Settings], rng: Random) -> None:
    view, chosen = site
    tables = {
        name: tuple(rng.sample(table, len(table)))
        for name in (
            "running",
            "pending",
            "partitions",
            "qos",
            "accounts",
            "users",
            "reservations",
            "licenses",
        )
        if (table := getattr(view, name))
    }
    made, again = plan(view, NOW, chosen), plan(msgspec.structs.replace(view, **tables), NOW, chosen)
    assert (made.starts, made.reserves, made.ends) == (again.starts, again.reserves, again.ends)
    assert set(made.preempts) == set(again.preempts) and made.resumes == again.resumes
    assert made.whys == again.whys and made.priorities == again.priorities
