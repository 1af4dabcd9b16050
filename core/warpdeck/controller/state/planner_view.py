"""Build the planner's view of the state."""

from __future__ import annotations

from warpdeck.policy import PlannerView

from .reservations import windows
from .state import State


def build_view(state: State, *, now: float) -> PlannerView:
    """Return an immutable view of the state, with nodes ordered by name and jobs by id."""
    site, view_cache = state.site, state.view_cache
    running, pending = view_cache.running(state, now=now), view_cache.pending(state, now=now)
    return PlannerView(
        nodes=view_cache.nodes(state),
        running=running,
        pending=pending,
        partitions=site.partitions,
        qos=site.qos,
        accounts=site.accounts,
        users=site.users,
        reservations=windows(state, now, running=running, pending=pending),
        licenses=site.licenses,
        counted_unix=state.accounting.counted_unix,
        longest_wait_s=state.planned.waits.longest_s(now),
        hetjob_leaders=tuple(state.index.hetjob_leaders),
    )
