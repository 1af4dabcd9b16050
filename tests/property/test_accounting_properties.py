"""Each second of each job is charged once and decays, under random events and kills of the controller."""

from __future__ import annotations

import math
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.core import ANN, BOB, Core, make_request

from warpdeck.config import Site, build_site, decode
from warpdeck.controller.events.events import Cancelled, Requeued
from warpdeck.controller.state.accounting import Accounting
from warpdeck.controller.state.state import State
from warpdeck.model import JobState

HALF_LIFE_S = 3600.0
RULES = """
[fairshare]
half_life = "1:00:00"
[scheduler]
billing_weights = "gres/gpu=2"
[qos.normal]
[qos.half]
usage_factor = 0.5
[accounts.lab]
[accounts.vision]
parent = "lab"
users.ann = {}
[accounts.speech]
parent = "lab"
users.bob = {}
"""
SITE = build_site(decode(RULES, "f").config)


class Ran(NamedTuple):
    """A real run: billing units from start to end (None: still running)."""

    account: str
    units: float
    start: float
    end: float | None


def worth(ran: Ran, now: float) -> float:
    """Return the integral of the decay in closed form."""
    rate = math.log(2) / HALF_LIFE_S
    end = now if ran.end is None else ran.end
    return ran.units * (math.exp(-rate * (now - end)) - math.exp(-rate * (now - ran.start))) / rate


def used(state: State, rules: Site, now: float) -> dict[str, float]:
    charged = Accounting().charged(state, rules, now=now)
    return {account.name: account.usage for account in charged.accounts}


def expected(log: list[Ran], now: float) -> dict[str, float]:
    own = {name: sum(worth(ran, now) for ran in log if ran.account == name) for name in ("vision", "speech")}
    return {"lab": sum(own.values()), "speech": own["speech"], "vision": own["vision"]}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "half", "end", "cancel", "requeue", "kill"]),
        st.integers(0, 5000),
        st.integers(1, 4),
    ),
    max_size=25,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_charged_usage_equals_the_real_run_time_also_after_a_kill(
    steps: list[tuple[str, int, int]],
) -> None:
    core = Core("a", "b")
    core.state.site = SITE
    log: dict[tuple[int, int], Ran] = {}
    for action, later_s, number in steps:
        core.now += later_s
        running = [job for job in core.state.jobs.values() if job.state is JobState.RUNNING]
        if action == "kill":
            links = core.state.node_status.links
            core.state = core.reload()
            core.state.node_status.links, core.state.site = links, SITE
        elif action in ("end", "cancel", "requeue") and running:
            job = running[number % len(running)]
            if action != "end":
                core.apply(
                    {"cancel": Cancelled, "requeue": Requeued}[action](principal=ANN, jobs=(str(job.id),))
                )
                core.now += 7  # the job takes time to end
            key = (job.id, job.restarts)
            ended = max(log[key].start, core.now - 60 * number)  # the node could not report it at once
            core.end(job.id, ended_at=ended)
            log[key] = log[key]._replace(end=ended)
        elif action in ("ann", "bob", "half"):
            core.submit(
                make_request(
                    gpus=number,
                    account="speech" if action == "bob" else "vision",
                    qos="half" if action == "half" else "normal",
                ),
                BOB if action == "bob" else ANN,
            )
        core.launch(core.plan().effects)
        for job in core.state.jobs.values():
            if job.state is JobState.RUNNING:
                units = 2.0 * job.allocation.gpu_count() if job.allocation else 0.0
                factor = 0.5 if job.request.qos == "half" else 1.0
                began = Ran(job.request.account, units * factor, core.now, None)
                log.setdefault((job.id, job.restarts), began)
        charges = expected(list(log.values()), core.now)
        for state in (core.state, core.reload()):
            found = used(state, SITE, core.now)
            for name, billing_s in charges.items():
                assert math.isclose(found[name], billing_s, rel_tol=1e-9, abs_tol=1e-6), (name, action)
