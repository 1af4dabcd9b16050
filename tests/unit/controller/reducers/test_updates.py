"""Changes of submitted jobs: which fields of which jobs, by which users, and that they survive a restart."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.core import ANN, BOB, ROOT, Core, make_request

from warpdeck.base.errors import UserError
from warpdeck.config import build_site, decode
from warpdeck.controller.events.effects import LimitShare, Outcome
from warpdeck.controller.events.events import Cancelled, Held, NodeLost, Released, Updated
from warpdeck.model import ArraySpec, Dependencies, Dependency, GpuRequest, JobState, NodeName
from warpdeck.model.change import JobChange
from warpdeck.model.request import MAX_LIMIT_S
from warpdeck.ports.caller import Principal

HOUR_S = 3600
LATER = 4e9


def update(core: Core, job: int | str, who: Principal = ANN, **fields: Any) -> Outcome:
    return core.apply(Updated(principal=who, jobs=(str(job),), change=JobChange(**fields)))


def change(core: Core, job: int | str, who: Principal = ANN, **fields: Any) -> Outcome:
    """Make an update that must succeed."""
    outcome = update(core, job, who, **fields)
    assert not outcome.errors
    return outcome


def refusal(core: Core, job: int | str, who: Principal = ANN, **fields: Any) -> tuple[str, str]:
    before = dict(core.state.jobs)
    outcome = update(core, job, who, **fields)
    assert core.state.jobs == before
    return outcome.codes[0], outcome.errors[0]


def test_all_fields_of_a_waiting_job_may_change_and_are_stored() -> None:
    core = Core("a", "b")
    other = core.submit(make_request())
    job_id = core.submit(make_request(time_limit_s=HOUR_S))
    change(
        core,
        job_id,
        name="other",
        comment="why",
        time_limit_s=2 * HOUR_S,
        nodes_min=2,
        mem_per_cpu_bytes=2**30,
        gpus=GpuRequest(per_node=1),
        nodelist=("a", "b"),
        nice=10,
        requeue=False,
        dependencies=Dependencies(clauses=(Dependency(kind="afterany", job_id=other),)),
        begin_at_unix=core.now + 60,
    )
    for job in (core.job(job_id), core.stored_job(job_id)):
        request = job.request
        assert (request.name, request.comment, request.nice, request.requeue) == ("other", "why", 10, False)
        assert (request.resources.nodes_min, request.resources.nodes_max) == (2, 2)
        assert request.resources.mem_per_cpu_bytes == 2**30
        assert request.resources.gpus.per_node == 1
        assert request.time_limit_s == 2 * HOUR_S
        assert job.eligible_at_unix == core.now + 60
    assert core.stored_job(other).request.name == "job"


def test_array_tasks_are_changed_alone_or_together() -> None:
    core = Core("a")
    job_id = core.submit(make_request(array=ArraySpec(ranges=((0, 9, 1),)), hold=True))
    change(core, f"{job_id}_3", comment="three")
    change(core, job_id, name="all", throttle=2)
    change(core, f"{job_id}_4", comment="four")
    for jobs in (core.state.jobs, core.reload().jobs):
        found = {job.label(): (job.request.name, job.request.comment) for job in jobs.values()}
        assert found == {
            f"{job_id}_[0-2,5-9]": ("all", ""),
            f"{job_id}_3": ("all", "three"),
            f"{job_id}_4": ("all", "four"),
        }
        assert {job.request.array.throttle for job in jobs.values() if job.request.array} == {2}


def test_a_change_must_be_valid_at_submission() -> None:
    core = Core("a")
    job_id = core.submit(make_request(hold=True))
    assert "can never start" in refusal(core, job_id, nodes_min=2)[1]
    assert refusal(core, job_id, nodelist=("zz",))[0] == "InvalidNode"
    assert refusal(core, job_id, reservation="zz")[0] == "reservation"
    itself = Dependencies(clauses=(Dependency(kind="afterok", job_id=job_id),))
    assert "itself" in refusal(core, job_id, dependencies=itself)[1]
    assert "deadline" in refusal(core, job_id, deadline_unix=core.now - 1)[1]
    assert refusal(core, "99", name="x")[0] == "not_found"


def test_users_may_only_lower_limits_and_priorities() -> None:
    core = Core("a")
    running = core.run(make_request(time_limit_s=HOUR_S))
    waiting = core.submit(make_request(begin_at_unix=LATER, nice=5))
    for job, fields in (
        (waiting, {"nice": -1}),
        (waiting, {"priority": 10}),
        (running, {"time_limit_s": 2 * HOUR_S}),
        (running, {"time_limit_more_s": 60}),
        (running, {"time_limit_s": None}),
    ):
        assert refusal(core, job, ANN, **fields)[0] == "denied", fields
        assert refusal(core, job, BOB, **fields)[0] == "not_owner", fields
        change(core, job, ROOT, **fields)
    change(core, waiting, priority=3)
    core.apply(Released(principal=ANN, jobs=(str(waiting),)))
    for nice in (100, 4):
        change(core, waiting, nice=nice)
    change(core, waiting, time_limit_s=5 * HOUR_S)


def test_a_release_removes_a_fixed_priority_of_the_whole_array() -> None:
    core = Core("a")
    array = core.submit(make_request(begin_at_unix=LATER, array=ArraySpec(ranges=((0, 3, 1),))))
    update(core, f"{array}_[0-1]", ROOT, priority=7)
    update(core, f"{array}_[2-3]", ROOT, priority=7)
    core.apply(Held(principal=ANN, jobs=(str(array),)))
    for _ in ("held", "not held"):
        core.apply(Released(principal=ANN, jobs=(str(array),)))
        tasks = core.reload().jobs.values()
        assert [job.request.priority for job in tasks] == [None] * 2 and not any(job.held for job in tasks)
        update(core, array, ROOT, priority=7)


def test_a_running_jobs_new_limit_is_sent_to_its_nodes() -> None:
    core = Core("a", "b")
    job_id = core.run(make_request(nodes=2, time_limit_s=HOUR_S))
    outcome = change(core, job_id, ROOT, time_limit_more_s=-60, comment="shorter")
    assert {each.node for each in outcome.effects if isinstance(each, LimitShare)} == {"a", "b"}
    assert core.stored_job(job_id).time_limit_s == HOUR_S - 60
    assert core.stored_job(job_id).request.comment == "shorter"
    begun = core.job(job_id).start_at_unix
    assert begun is not None
    change(core, job_id, ROOT, end_at_unix=begun + 2 * HOUR_S)
    assert core.job(job_id).time_limit_s == 2 * HOUR_S
    code, _ = refusal(core, job_id, ROOT, time_limit_more_s=-3 * HOUR_S)
    assert code == "limit_decrement"


def test_a_node_that_missed_a_new_limit_gets_it_on_reconnect() -> None:
    core = Core("a")
    job_id = core.run(make_request(time_limit_s=HOUR_S))
    core.apply(NodeLost(name=NodeName("a")))
    change(core, job_id, ROOT, time_limit_s=2 * HOUR_S)
    launch = (job_id, 0)
    agent = core.agents[NodeName("a")]
    for known_s, orders in ((float(HOUR_S), 1), (2.0 * HOUR_S, 0), (-1.0, 0)):
        agent.jobs[launch] = _with_limit(agent.jobs[launch], known_s)
        effects = core.up(NodeName("a")).effects
        assert sum(isinstance(each, LimitShare) for each in effects) == orders, known_s


def _with_limit(report: Any, limit_s: float) -> Any:
    return type(report)(**{**report.__dict__, "time_limit_s": limit_s})


def test_resources_of_running_and_ended_jobs_cannot_change() -> None:
    core = Core("a")
    running = core.run(make_request())
    for fields in ({"nodes_min": 2}, {"partition": "x"}, {"qos": "x"}, {"gpus": GpuRequest(per_node=1)}):
        assert refusal(core, running, ROOT, **fields)[0] == "not_pending", fields
    waiting = core.submit(make_request(hold=True))
    assert refusal(core, waiting, ROOT, end_at_unix=core.now + 60)[0] == "not_running"
    core.apply(Cancelled(principal=ANN, jobs=(str(waiting),)))
    assert core.job(waiting).state is JobState.CANCELLED
    assert refusal(core, waiting, name="x")[0] == "finished"
    change(core, waiting, comment="late")
    assert core.stored_job(waiting).request.comment == "late"


def test_the_end_of_a_starting_job_cannot_be_moved() -> None:
    core = Core("a")
    job_id = core.submit(make_request())
    core.plan()
    assert core.job(job_id).state is JobState.CONFIGURING
    for who in (ANN, ROOT):
        assert refusal(core, job_id, who, end_at_unix=core.now + 60)[0] == "not_running"


def test_a_time_limit_cannot_be_moved_above_the_maximum() -> None:
    """The store could not read a value that the types reject."""
    core = Core("a")
    job_id = core.submit(make_request(hold=True, time_limit_s=MAX_LIMIT_S - 60))
    change(core, job_id, time_limit_more_s=60)
    assert refusal(core, job_id, time_limit_more_s=1)[0] == "limit"
    assert core.stored_job(job_id).request.time_limit_s == MAX_LIMIT_S


def test_nice_priority_and_mail_of_a_running_job_apply_from_its_next_start() -> None:
    core = Core("a")
    job_id = core.run(make_request())
    change(core, job_id, ANN, nice=5)
    assert core.stored_job(job_id).request.nice == 5
    change(core, job_id, ROOT, priority=7)
    change(core, job_id, ANN, nice=6, mail_types=("END",), mail_user="ann@lab")
    request = core.stored_job(job_id).request
    assert (request.nice, request.priority, request.mail_types, request.mail_user) == (
        0,  # without effect while a priority is set
        7,
        ("END",),
        "ann@lab",
    )
    assert refusal(core, job_id, ANN, nice=-1)[0] == "denied"


def test_a_relative_limit_change_starts_at_the_sites_default() -> None:
    core = Core("a")
    core.state.site = build_site(decode('[scheduler]\ndefault_time = "1:00:00"', "f").config)
    job_id = core.submit(make_request(hold=True))
    assert refusal(core, job_id, ROOT, time_min_s=2 * HOUR_S)[0] == "time_min"
    code, _ = refusal(core, job_id, ROOT, time_limit_more_s=-HOUR_S)
    assert code == "limit_decrement"
    change(core, job_id, time_limit_more_s=600)
    assert core.stored_job(job_id).request.time_limit_s == HOUR_S + 600
    change(core, job_id, time_min_s=HOUR_S)
    change(core, job_id, time_limit_s=None)
    assert core.stored_job(job_id).request.unlimited
    change(core, job_id, time_limit_s=HOUR_S)
    assert not core.stored_job(job_id).request.unlimited


def test_an_empty_change_is_refused() -> None:
    core = Core("a")
    job_id = core.submit(make_request())
    with pytest.raises(UserError, match="no changes given"):
        update(core, job_id)
