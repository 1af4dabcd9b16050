"""Usage that counts against the limits of associations and QoS: running jobs, queued jobs, and accumulated
use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.controller.state.planner_view import build_view
from warpdeck.policy.limits.limits import add_minutes, left_s
from warpdeck.policy.limits.usage_by_scope import NO_USE, Scope, Scopes, ScopeUsage, UsageByScope
from warpdeck.policy.resources.tres import add
from warpdeck.protocol.site_rows import UseRow

if TYPE_CHECKING:
    from warpdeck.controller.state.state import State

Minutes = dict[str, float]
SECONDS = 60


def use_rows(state: State, now: float) -> list[UseRow]:
    """Return a row for each scope that has running jobs, pending jobs or past use."""
    view = build_view(state, now=now)
    scopes = Scopes(view)
    counts = UsageByScope(state.site.settings.billing_weights)
    counts.follow(view, scopes)
    uses: dict[Scope, ScopeUsage] = {}
    for job in view.running:
        tres, under = counts.of(job)
        qos = scopes.qos.get(job.qos)
        left = (left_s(job, now, counted_unix=view.counted_unix) or 0.0) * (qos.usage_factor if qos else 1.0)
        for scope in {*under, *_own(job.user, job.account, job.qos)}:
            use = uses.setdefault(scope, ScopeUsage())
            use.jobs += 1
            add(use.tres, tres)
            add_minutes(use.minutes, tres, left / SECONDS)
    submitted = _submitted(state, scopes)
    used = _used(state)
    return [
        _row(scope, uses.get(scope, NO_USE), submitted[scope], used.get(scope, {}))
        for scope in sorted({*uses, *submitted, *used})
    ]


def _own(user: str, account: str, qos: str) -> Iterator[Scope]:
    """Yield the scopes of the QoS of a job.

    A job that names no QoS has the site's default QoS.
    """
    name = qos or NORMAL_QOS
    yield ("qos", name)
    yield ("qos", name, "user", user)
    yield ("qos", name, "account", account)


def _submitted(state: State, scopes: Scopes) -> Counter[Scope]:
    found: Counter[Scope] = Counter()
    for (account, user, qos), count in state.submitted.items():
        above = [("account", each.name) for each in scopes.chain(account)]
        for scope in (*_own(user, account, qos), ("user", account, user), *above):
            found[scope] += count
    return found


def _used(state: State) -> dict[Scope, Minutes]:
    site = state.site
    seconds: dict[Scope, dict[str, float]] = {("qos", qos.name): qos.usage for qos in site.qos}
    seconds |= {("account", each.name): each.tres_usage for each in site.accounts}
    seconds |= {("user", each.account, each.user): each.tres_usage for each in site.users}
    return {
        scope: {name: count / SECONDS for name, count in used.items()}
        for scope, used in seconds.items()
        if used
    }


def _row(scope: Scope, use: ScopeUsage, submitted: int, minutes: Minutes) -> UseRow:
    found = UseRow(
        jobs=use.jobs, submitted=submitted, tres=use.tres, minutes=minutes, run_minutes=use.minutes
    )
    match scope:
        case ("qos", qos):
            named = {"qos": qos}
        case ("qos", qos, kind_of_owner, name):
            named = {"qos": qos, kind_of_owner: name}
        case ("user", account, user):
            named = {"account": account, "user": user}
        case _:
            named = {"account": scope[1]}
    return msgspec.structs.replace(found, **named)
