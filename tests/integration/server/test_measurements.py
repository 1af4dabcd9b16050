"""Measurements over time and manual health checks, as clients get them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.core import make_request
from tests.support.served import Raw, Served, served

from warpdeck.controller.events.events import Submitted
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire

ANN = Principal(user="ann", uid=4001)
USED = wire.GpuUsage(seconds=100.0, busy_s=75.0, idle_s=20.0, mem_peak_bytes=7, energy_j=3600.0)


@pytest.fixture
async def site(short_tmp: Path) -> AsyncIterator[Served]:
    async with served(short_tmp / "home") as served_site:
        await served_site.add_node("a")
        yield served_site


@pytest.fixture
async def raw(site: Served) -> AsyncIterator[Raw]:
    new_raw = await Raw.connect(site.paths)
    yield new_raw
    await new_raw.close()


async def begun(site: Served) -> int:
    outcome = await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=1)))
    assert outcome.job is not None
    await site.until(lambda: bool(site.fleet.launches))
    await site.report("a", wire.JobReport(outcome.job.id, 0, phase="running", started_at=50.0))
    return int(outcome.job.id)


async def test_a_running_jobs_curve_comes_from_its_nodes(site: Served, raw: Raw) -> None:
    job = await begun(site)
    curve = wire.Curve(begin_unix=50.0, step_s=1.0, gpu_util_pct=[10.0, None])
    site.fleet.measured = wire.Curves(ask=0, curves=[curve], gpu=USED, cpu_seconds=3.0, peak_mem_bytes=9)
    found = (await raw.request("curves", job=str(job)))["result"]
    (row,) = found["curves"]
    assert (row["node"], row["gpu"], row["columns"]) == ("a", None, {"gpu_util_pct": [10.0, None]})
    assert found["used"] == {
        "cpu_seconds": 3.0,
        "system_s": 0.0,
        "peak_mem_bytes": 9,
        "gpu_util_pct": 75.0,
        "gpu_idle_pct": 20.0,
        "gpu_mem_peak_bytes": 7,
        "energy_j": 3600.0,
        "gpu_source": "agent",
    }


async def test_curves_and_usage_of_an_ended_job_are_kept(site: Served, raw: Raw) -> None:
    job = await begun(site)
    ended = wire.JobReport(
        job,
        0,
        phase="exited",
        ended_at=60.0,
        cpu_seconds=4.0,
        peak_mem_bytes=11,
        gpu=USED,
        curve=wire.Curve(begin_unix=50.0, step_s=2.0, mem_bytes=[1.0, 2.0, 3.0]),
    )
    await site.report("a", ended)
    found = (await raw.request("curves", job=str(job)))["result"]
    assert [(row["node"], row["begin"], row["step_s"]) for row in found["curves"]] == [("a", 50.0, 2.0)]
    assert found["curves"][0]["columns"] == {"mem_bytes": [1.0, 2.0, 3.0]}
    row = (await raw.request("job", job=str(job)))["result"]["row"]
    assert row["used"] == found["used"] and row["used"]["gpu_util_pct"] == 75.0


async def test_a_nodes_curves_name_its_gpus(site: Served, raw: Raw) -> None:
    curves = [wire.Curve(begin_unix=1.0, step_s=10.0, uuid=uuid) for uuid in ("", "a-2")]
    site.fleet.measured = wire.Curves(ask=0, curves=curves)
    found = (await raw.request("curves", node="a", step_s=10))["result"]
    assert [(row["gpu"], row["uuid"]) for row in found["curves"]] == [(None, ""), (2, "a-2")]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "either a job or a node"),
        ({"job": "1", "node": "a"}, "either a job or a node"),
        ({"node": "b"}, "there is no node b"),
        ({"job": "77"}, "job 77 is not known"),
        ({"node": "a", "step_s": 0}, "step_s"),
    ],
)
async def test_an_invalid_query_has_a_clear_message(raw: Raw, fields: dict[str, object], text: str) -> None:
    answer = await raw.request("curves", number=0, **fields)
    assert answer["t"] == "error" and text in answer["message"]


async def test_a_manual_health_check_shows_the_resulting_node_state(site: Served, raw: Raw) -> None:
    site.fleet.checks = [wire.Check("disk", "fail", "/tmp is full")]
    (row,) = (await raw.request("node_check"))["result"]["nodes"]
    assert (row["name"], row["state"], row["reason"]) == ("a", "drained", "/tmp is full")
    assert [(each["check"], each["verdict"]) for each in row["checks"]] == [("disk", "fail"), ("clock", "ok")]
    site.fleet.checks = [wire.Check("disk", "ok")]
    (row,) = (await raw.request("node_check", name="a"))["result"]["nodes"]
    assert row["state"] == "idle"


@pytest.mark.root
async def test_ordinary_users_get_the_last_health_check(site: Served, raw: Raw) -> None:
    site.fleet.checks = [wire.Check("disk", "ok", "first")]
    await raw.request("node_check")
    site.fleet.checks = [wire.Check("disk", "ok", "second")]
    other = await Raw.connect(site.paths, uid=65534)
    try:
        (row,) = (await other.request("node_check"))["result"]["nodes"]
        assert row["checks"][0]["message"] == "first"
        assert (await other.request("node_drain", name="a", reason="x", gpus=[1]))["t"] == "error"
    finally:
        await other.close()


async def test_an_unknown_step_has_a_clear_message(site: Served, raw: Raw) -> None:
    job = await begun(site)
    none = (await raw.request("curves", job=f"{job}.7"))["message"]
    assert none == f"job {job} has no step 7"
    assert "is not a step" in (await raw.request("curves", job=f"{job}.x"))["message"]
