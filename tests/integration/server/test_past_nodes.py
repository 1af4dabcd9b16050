"""The nodes at a past moment, as clients get them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.core import Agent, make_request
from tests.support.served import Raw, Served, served

from warpdeck.base.errors import RemoteError
from warpdeck.controller.events.events import NodeDrained, NodeLost, NodeResumed, NodeUp, Requeued, Submitted
from warpdeck.engines.native.nodes import past_measurements
from warpdeck.model import GpuRequest, Node, NodeName, Resources
from warpdeck.ports.caller import Principal
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore
from warpdeck_agent.wire import messages as wire

ANN = Principal(user="ann", uid=4001)
BUSY = wire.GpuSample(index=1, util_pct=97, mem_used_bytes=7 << 30, power_w=650.0, temp_c=71)


@pytest.fixture
async def site(short_tmp: Path) -> AsyncIterator[Served]:
    async with served(short_tmp / "home") as served_site:
        for name in ("a", "b", "c"):
            await served_site.add_node(name)
        yield served_site


@pytest.fixture
async def raw(site: Served) -> AsyncIterator[Raw]:
    new_raw = await Raw.connect(site.paths)
    yield new_raw
    await new_raw.close()


async def begun(site: Served, **fields: Any) -> tuple[int, float]:
    """Start a job on node a. Return its id and a moment at which it ran."""
    launches = len(site.fleet.launches)
    request = make_request(gpus=1, **fields)
    outcome = await site.controller.apply(Submitted(principal=ANN, request=request))
    assert outcome.job is not None
    await site.until(lambda: len(site.fleet.launches) > launches)
    return int(outcome.job.id), await running(site, int(outcome.job.id))


async def running(site: Served, job_id: int, *, restarts: int = 0) -> float:
    now = time.time()
    await site.report("a", wire.JobReport(job_id, restarts, phase="running", started_at=now))
    return time.time()


async def nodes_at(raw: Raw, at: float, **fields: Any) -> list[dict[str, Any]]:
    answer = await raw.request("nodes_at", at=at, **fields)
    rows: list[dict[str, Any]] = answer["result"]["nodes"]
    return rows


async def test_a_past_moment_shows_jobs_and_measurements_of_gpus(site: Served, raw: Raw) -> None:
    job, at = await begun(site)
    holds = site.controller.state.jobs[job].shares  # type: ignore[index]
    assert [share.node for share in holds] == ["a"]
    site.fleet.moments["a"] = wire.Moment(
        ask=1,
        begin_unix=at // 60 * 60,
        step_s=60.0,
        since_unix=5.0,
        cpu_pct=12.5,
        mem_used_bytes=9,
        gpus=[BUSY],
    )
    site.fleet.moments["b"] = RemoteError(NodeName("b"), "no answer for 2 s")
    site.fleet.moments["c"] = wire.Moment(ask=1, since_unix=at + 100)
    a, b, c = await nodes_at(raw, at)
    assert (a["state"], a["jobs"], a["cpus_used"]) == ("mixed", [str(job)], 1)
    assert (a["begin"], a["step_s"], a["since"], a["unknown"]) == (at // 60 * 60, 60.0, 5.0, "")
    assert (a["cpu_pct"], a["mem_used_bytes"]) == (12.5, 9)
    first, second, *_ = a["gpus"]
    assert (first["job"], first["job_user"], first["util_pct"], first["temp_c"]) == (
        str(job),
        "ann",
        None,
        None,
    )
    reported = [second[name] for name in ("job", "util_pct", "mem_used_bytes", "power_w", "temp_c")]
    assert reported == ["", 97, 7 << 30, 650.0, 71]
    assert (b["state"], b["unknown"]) == ("idle", "b does not answer: no answer for 2 s")
    assert (c["begin"], c["step_s"], c["since"], c["unknown"]) == (
        None,
        None,
        at + 100,
        "there are no measurements",
    )
    assert all(gpu["util_pct"] is None for row in (b, c) for gpu in row["gpus"])


async def test_gpus_are_free_before_the_start_and_after_the_end_of_a_job(site: Served, raw: Raw) -> None:
    job, at = await begun(site)
    end = time.time()
    await site.report("a", wire.JobReport(job, 0, phase="exited", started_at=at, ended_at=end))
    await site.until(lambda: site.controller.state.jobs[job].is_finished)  # type: ignore[index]
    for moment, label in ((at - 60, ""), (at, str(job)), (time.time(), "")):
        (row,) = await nodes_at(raw, moment, name="a")
        assert [gpu["job"] for gpu in row["gpus"]] == [label, "", "", ""], moment


async def test_an_earlier_start_of_a_requeued_job_is_known(site: Served, raw: Raw) -> None:
    job, at = await begun(site, requeue=True)
    await site.controller.apply(Requeued(principal=ANN, jobs=(str(job),), hold=True))
    await site.report("a", wire.JobReport(job, 0, phase="exited", started_at=at, ended_at=time.time()))
    await site.until(lambda: site.controller.state.jobs[job].state == "PENDING")  # type: ignore[index]
    (row,) = await nodes_at(raw, at, name="a")
    assert row["gpus"][0]["job"] == str(job)


def measured(*strangers: wire.Strangers) -> wire.Moment:
    return wire.Moment(ask=1, begin_unix=5.0, step_s=60.0, gpus=[BUSY], strangers=list(strangers))


def four(**seen: dict[str, int]) -> list[wire.Strangers]:
    """Return the foreign processes on all GPUs of a node; gpu1={"eve": 5} are those on the second GPU."""
    return [wire.Strangers(index, seen.get(f"gpu{index}", {})) for index in range(4)]


async def test_past_node_states_have_their_reasons(site: Served, raw: Raw) -> None:
    a, apply = NodeName("a"), site.controller.apply
    moments = {"well": time.time()}
    site.fleet.moments["a"] = measured(*four())
    for name, event in (
        ("drained", NodeDrained(name=a, reason="new cables")),
        ("down too", NodeLost(name=a, reason="connection refused; next attempt in 4 s")),
        ("down", NodeResumed(name=a)),
        ("up", NodeUp(name=a, welcome=Agent("a").welcome())),
        ("gpu", NodeDrained(name=a, reason="ECC", gpus=(2,))),
        ("again", NodeResumed(name=a)),
    ):
        await apply(event)
        moments[name] = time.time()
    reported = {}
    for name, at in moments.items():
        (row,) = await nodes_at(raw, at, name="a")
        reported[name] = (row["state"], row["reason"], [gpu["blocked"] for gpu in row["gpus"]])
        assert row["untold"] == []
    free = ["", "", "", ""]
    assert reported == {
        "well": ("idle", "", free),
        "drained": ("drained", "new cables", free),
        "down too": ("drained", "new cables", free),
        "down": ("down", "connection refused", free),
        "up": ("idle", "", free),
        "gpu": ("idle", "", ["", "", "drained: ECC", ""]),
        "again": ("idle", "", free),
    }


async def test_a_drained_node_that_jobs_held_was_draining(site: Served, raw: Raw) -> None:
    _, at = await begun(site)
    await site.controller.apply(NodeDrained(name=NodeName("a"), reason="later"))
    before, after = [(await nodes_at(raw, moment, name="a"))[0] for moment in (at, time.time())]
    assert (before["state"], after["state"]) == ("mixed", "draining")


async def test_recorded_states_are_known_after_a_restart_and_others_are_unknown(
    short_tmp: Path,
) -> None:
    store, a = MemoryStore(), NodeName("a")
    async with served(short_tmp / "first", store=store) as site:
        await site.add_node("a")
        await site.controller.apply(NodeLost(name=a, reason="cut"))
        at = time.time()
    await store.commit(Changes(nodes=(Node(name=NodeName("old"), cpus=4),)))
    async with served(short_tmp / "second", store=store) as site:
        await site.controller.apply(NodeUp(name=a, welcome=Agent("a").welcome()))
        later = time.time()
        raw = await Raw.connect(site.paths)
        reported = {
            moment: [(row["state"], row["reason"], row["untold"]) for row in await nodes_at(raw, moment)]
            for moment in (at, later)
        }
        await raw.close()
    old = ("idle", "", ["its state (drained or down)"])
    assert reported == {at: [("down", "cut", []), old], later: [("idle", "", []), old]}


async def test_a_node_added_later_was_not_part_of_the_cluster(site: Served, raw: Raw) -> None:
    (row,) = await nodes_at(raw, 5.0, name="a")
    assert (row["state"], row["unknown"], row["untold"]) == (
        "absent",
        "it was not yet a node of this cluster",
        [],
    )


async def test_foreign_processes_blocked_a_gpu_in_the_past(site: Served, raw: Raw) -> None:
    job, at = await begun(site)
    seen = four(gpu1={"eve": 3 << 30, "bob": 1 << 20}, gpu2={"": 1 << 30})
    seen[3] = wire.Strangers(3, unexplained_bytes=2 << 30)
    site.fleet.moments["a"] = measured(*seen)
    (row,) = await nodes_at(raw, at, name="a")
    assert [gpu["blocked"] for gpu in row["gpus"]] == [
        "",
        "held by eve outside the queue (3.0 GiB)",
        "held by an unknown user outside the queue (1.0 GiB)",
        "2.0 GiB of its memory are used by no visible process",
    ]
    assert [gpu["job"] for gpu in row["gpus"]] == [str(job), "", "", ""]
    assert [(each["user"], each["mem_bytes"], each["job"]) for each in row["gpus"][1]["processes"]] == [
        ("eve", 3 << 30, ""),
        ("bob", 1 << 20, ""),
    ]


async def test_missing_records_of_foreign_processes_count_as_unknown(site: Served, raw: Raw) -> None:
    site.fleet.moments["a"] = measured()
    site.fleet.moments["b"] = measured(*four()[:3])
    site.fleet.moments["c"] = measured(*four())
    rows = await nodes_at(raw, time.time())
    unsaid = ["other processes on its GPUs"]
    assert [row["untold"] for row in rows] == [unsaid, unsaid, []]


async def test_all_jobs_that_shared_a_gpu_are_listed_with_their_shares(site: Served, raw: Raw) -> None:
    jobs = []
    for part in (50, 30):
        job, at = await begun(site, resources=Resources(gpus=GpuRequest(share_pct=part)))
        jobs.append(str(job))
    (row,) = await nodes_at(raw, at, name="a")
    parts = [
        [(each["job"], each["user"], each["share_pct"]) for each in gpu["sharers"]] for gpu in row["gpus"]
    ]
    assert parts == [[(jobs[0], "ann", 50), (jobs[1], "ann", 30)], [], [], []]
    assert row["gpus"][0]["job"] == jobs[0]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"at": 1e11}, "is in the future"),
        ({"at": 5.0, "name": "z"}, "there is no node z"),
        ({"at": -1.0}, "not understood"),
        ({"at": "x"}, "not understood"),
        ({}, "not understood"),
    ],
)
async def test_an_invalid_moment_is_refused_with_a_message(
    raw: Raw, fields: dict[str, Any], text: str
) -> None:
    raw.send("nodes_at", id=1, **fields)
    answer = await raw.next()
    assert answer["t"] == "error" and text in answer["message"]


async def test_few_nodes_are_asked_at_once_and_a_slow_one_delays_no_other(
    site: Served, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_measurements, "ASKED_A_TURN", 3)
    for number in range(10):
        await site.add_node(f"n{number}")
    turn, requested = 0, []
    answers = asyncio.Event()

    async def moment(name: NodeName, *, at_unix: float) -> wire.Moment:
        requested.append(turn)
        if len(requested) == 13:
            answers.set()
        await answers.wait()
        return measured(*four())

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if not answers.is_set():
            asyncio.get_running_loop().call_soon(next_turn)

    monkeypatch.setattr(site.fleet, "past_state", moment)
    next_turn()
    rows = await nodes_at(raw, time.time())
    assert [row["unknown"] for row in rows] == [""] * 13
    assert max(Counter(requested).values()) == 3


async def test_many_queries_at_once_are_all_answered(site: Served, raw: Raw) -> None:
    for number in range(1, 13):
        raw.send("nodes_at", id=number, at=5.0 if number % 3 else 1e11)
    kinds = [(await raw.next())["t"] for _ in range(12)]
    assert sorted(kinds) == ["error"] * 4 + ["ok"] * 8
