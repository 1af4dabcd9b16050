"""The controller's answers about policy: forecasts of jobs and requests, priorities, shares and the site's
tables.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.agent import USER
from tests.support.core import make_request
from tests.support.served import Raw, Served, served

from warpdeck.base.errors import UserError
from warpdeck.config import Config, decode
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.planning.forecast import view_with_request
from warpdeck.model import Job, Request
from warpdeck.ports.caller import Principal
from warpdeck.store import MemoryStore

ANN = Principal(user="ann", uid=4001)
ADMIN = Principal(user=USER, uid=os.geteuid(), admin=True)
SITE = """
[scheduler]
default_partition = "long"
default_time = "1:00:00"
[scheduler.weights]
age = 1000
fairshare = 5000
qos = 200
[partitions.long]
nodes = "a,c"
allow_groups = ["wheel"]
allow_users = ["ann", "bob", "root"]
[partitions.short]
nodes = "b"
max_time = "10:00"
max_nodes = 1
[qos.normal]
max_tres_per_user = "gres/gpu=32"
max_wall = "12:00:00"
[qos.urgent]
priority = 10
preempts = ["normal"]
[accounts.lab]
quota = "gres/gpu=2"
[accounts.vision]
parent = "lab"
shares = 3
users.ann = {}
users.root = { shares = 4 }
[accounts.speech]
parent = "lab"
users.bob = {}
[reservations.later]
start = 2100-01-01T00:00:00Z
duration = "1:00:00"
accounts = ["speech"]
[reservations.works]
nodes = "b"
start = 2000-01-01T00:00:00Z
end = 2000-01-02T00:00:00Z
maintenance = true
""".replace("users.root", f"users.{USER}").replace('"root"', f'"{USER}"')


def site_config(text: str = SITE) -> Config:
    decoded: Config = decode(text, "config.toml").config
    return decoded


async def put(site: Served, request: Request, who: Principal = ANN) -> Job:
    outcome = await site.controller.apply(Submitted(principal=who, request=request))
    assert outcome.job is not None
    return outcome.job


async def answer_to(site: Served, t: str, **fields: Any) -> Any:
    """Return the result of one request. A refusal fails the test."""
    raw = await Raw.connect(site.paths)
    answer = await raw.request(t, **fields)
    await raw.close()
    assert answer["t"] == "ok", answer
    return answer["result"]


async def dry_run(site: Served, request: Request) -> Any:
    return await answer_to(site, "dry_run", request=msgspec.to_builtins(request))


async def full_node(site: Served) -> Job:
    """Return a job that holds the four GPUs of one node for two hours."""
    await site.add_node("a")
    job = await put(site, make_request("first", gpus=4, time_limit_s=7200))
    await site.until(lambda: site.controller.state.jobs[job.id].allocation is not None)
    return job


async def test_a_dry_run_that_fits_would_start_now_and_changes_nothing(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        found = await dry_run(site, make_request(gpus=4))
        assert (found["verdict"], found["node_list"]) == ("now", "a")
        state = site.controller.state
        assert not state.jobs and not state.index.pending and state.next_job_id == 1
        assert not site.fleet.launches


async def test_a_dry_run_behind_others_names_the_start_and_the_change_for_an_earlier_one(
    short_tmp: Path,
) -> None:
    async with served(short_tmp / "h") as site:
        first = await full_node(site)
        second = await put(site, make_request("second", gpus=2, time_limit_s=600))
        found = await dry_run(site, make_request(gpus=4, time_limit_s=600))
        assert (found["verdict"], found["code"]) == ("later", "Resources")
        assert found["leaders"] == [{"label": str(second.id), "user": "ann"}] and found["ahead"] == 1
        assert found["expected_start"] > site.controller.clock() + 7000
        ends = site.controller.state.jobs[first.id]
        assert ends.state.value in ("CONFIGURING", "RUNNING")


async def test_a_dry_run_of_an_impossible_request_says_never(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        found = await dry_run(site, make_request(gpus=64))
        assert found["verdict"] == "never" and found["code"] == "BadConstraints" and found["hint"]
        assert found["sentence"].startswith("the job requests 64 GPUs"), found
        found = await dry_run(site, msgspec.structs.replace(make_request(), script=""))
        assert found["verdict"] == "never" and "neither a script nor a command" in found["sentence"]


async def test_a_dry_run_refuses_what_a_submission_refuses_by_the_sites_rules(short_tmp: Path) -> None:
    own_user = SITE.replace("users.root", f"users.{USER}")  # The client is a process of this user.
    async with served(short_tmp / "h", config=site_config(own_user)) as site:
        for name in ("a", "b", "c"):
            await site.add_node(name)
        asked_for = make_request(partition="short", time_limit_s=7200)
        found = await dry_run(site, asked_for)
        assert (found["verdict"], found["code"]) == ("never", "PartitionTimeLimit")
        with pytest.raises(UserError) as refused:
            await put(site, asked_for)
        assert refused.value.message.endswith(found["sentence"])
        assert (await dry_run(site, make_request(partition="short", time_limit_s=600)))["node_list"] == "b"


async def test_a_rehearsal_does_not_change_the_state(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await full_node(site)
        state = site.controller.state
        before = (dict(state.jobs), dict(state.index.pending), dict(state.index.active), state.next_job_id)
        view, job_id = view_with_request(
            state, Submitted(principal=ANN, request=make_request(hold=True)), now=1000.0
        )
        assert [job.id for job in view.pending] == [job_id] and not view.pending[0].held
        assert (state.jobs, state.index.pending, state.index.active, state.next_job_id) == before
        with pytest.raises(UserError):
            view_with_request(state, Submitted(principal=ANN, request=make_request(gpus=64)), now=1000.0)
        assert (state.jobs, state.index.pending, state.index.active, state.next_job_id) == before


async def test_a_waiting_job_has_a_forecast_and_any_other_has_none(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        first = await full_node(site)
        second = await put(site, make_request("second", gpus=4, time_limit_s=600))
        found = await answer_to(site, "forecast", job=str(second.id))
        assert found["verdict"] == "later" and found["sentence"] and not found["leaders"]
        assert (await answer_to(site, "forecast", job=str(first.id)))["verdict"] == ""
        held = await put(site, make_request("held", hold=True))
        assert (await answer_to(site, "forecast", job=str(held.id)))["code"] == "JobHeldUser"


async def test_the_parts_of_a_priority_add_up(short_tmp: Path) -> None:
    async with served(short_tmp / "h", config=site_config()) as site:
        await site.add_node("a")
        await site.add_node("c")
        plain = await put(site, make_request("plain", gpus=4, nodes=2))
        await site.until(lambda: site.controller.state.jobs[plain.id].allocation is not None)
        normal = await put(site, make_request("normal", gpus=4, nice=50))
        urgent = await put(site, make_request("urgent", gpus=4, qos="urgent"))
        by_hand = await put(site, make_request("set", gpus=4, priority=10**6), ADMIN)
        answer = await answer_to(site, "priorities")
        assert answer["weights"] == {"age": 1000.0, "fairshare": 5000.0, "qos": 200.0}
        rows = answer["jobs"]
        assert [row["label"] for row in rows] == [str(job.id) for job in (by_hand, urgent, normal)]
        for row in rows[1:]:
            parts = sum(row[f"{name}_part"] for name in ("age", "fairshare", "qos")) - row["nice"]
            assert abs(parts - row["priority"]) <= 1, row
        assert rows[0]["set_by_hand"] and rows[1]["qos_part"] == 200 and rows[2]["nice"] == 50
        only = await answer_to(site, "priorities", ids=[str(normal.id)])
        assert [row["label"] for row in only["jobs"]] == [str(normal.id)]
        raw = await Raw.connect(site.paths)
        refused = await raw.request("priorities", ids=[str(plain.id)])
        assert "is not waiting" in refused["message"]
        await raw.close()
        await site.until(lambda: by_hand.id in site.controller.state.planned.priorities)
        queue = await answer_to(site, "jobs", ids=[str(by_hand.id)])
        assert queue["jobs"][0]["priority"] == 10**6


async def test_a_long_queue_of_priorities_comes_in_pages(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        for number in range(1100):
            await put(site, make_request(f"job{number}", hold=True))
        raw = await Raw.connect(site.paths)
        raw.send("priorities", id=1)
        page, last = await raw.next(), await raw.next()
        assert len(page["part"]["jobs"]) == 1000 and len(last["result"]["jobs"]) == 100
        assert last["result"]["weights"] == {}
        await raw.close()


async def test_shares_are_the_tree_of_accounts(short_tmp: Path) -> None:
    async with served(short_tmp / "h", config=site_config()) as site:
        answer = await answer_to(site, "shares")
        lines = [(row["depth"], row["account"], row["user"]) for row in answer["shares"]]
        assert lines == [
            (0, "lab", ""),
            (1, "speech", ""),
            (2, "speech", "bob"),
            (1, "vision", ""),
            (2, "vision", "ann"),
            (2, "vision", USER),
        ]
        by_name = {(row["account"], row["user"]): row for row in answer["shares"]}
        assert by_name["lab", ""]["quota"] == {"gres/gpu": 2}
        assert by_name["vision", USER]["norm_shares"] == 0.8
        assert by_name["vision", "ann"]["level_fs"] is None and by_name["vision", "ann"]["fairshare"] == 1.0
        assert by_name["vision", ""]["fairshare"] is None
        assert answer["half_life_s"] == 7 * 86_400


async def test_usage_counts_at_once_even_without_waiting_jobs(short_tmp: Path) -> None:
    async with served(short_tmp / "h", config=site_config()) as site:
        agent = await site.add_node("a")
        job = await put(site, make_request(gpus=4))
        await site.until(lambda: bool(site.fleet.launches))
        began = site.controller.clock() - 1000
        await site.report("a", agent.begin((job.id, 0), at=began))
        await site.report("a", agent.end((job.id, 0), ended_at=began + 900))
        rows = (await answer_to(site, "shares"))["shares"]
        usage = {(row["account"], row["user"]): row["usage"] for row in rows}
        assert usage["vision", "ann"] > 0 and usage["lab", ""] == usage["vision", "ann"]
        level = {(row["account"], row["user"]): row["level_fs"] for row in rows}
        assert level["vision", "ann"] == 0.2 and level["speech", ""] is None


async def test_partitions_show_their_nodes_limits_and_users(short_tmp: Path) -> None:
    async with served(short_tmp / "h", config=site_config()) as site:
        await site.add_node("a")
        await site.add_node("b")
        job = await put(site, make_request(gpus=3))
        await site.until(lambda: site.controller.state.jobs[job.id].allocation is not None)
        answer = await answer_to(site, "partitions")
        long, short = answer["partitions"]
        assert answer["configured"] and long["default"] and not short["default"]
        assert (long["node_list"], long["missing"]) == ("a", "c")
        assert (long["gpus_used"], long["gpus"], long["cpus_used"]) == (3, 4, 1)
        assert long["node_states"] == {"mixed": 1} and short["node_states"] == {"idle": 1}
        assert long["allow_groups"] == ["wheel"] and long["allow_users"] == ["ann", "bob", USER]
        assert (short["max_time_s"], short["max_nodes"], short["allow_users"]) == (600, 1, None)


async def test_reservations_and_qos_are_listed(short_tmp: Path) -> None:
    async with served(short_tmp / "h", config=site_config()) as site:
        await site.add_node("a")
        works, later = (await answer_to(site, "reservations"))["reservations"]
        assert (works["name"], works["state"], works["maintenance"]) == ("works", "over", True)
        assert (later["state"], later["node_list"], later["accounts"]) == ("future", "a", ["speech"])
        assert later["end"] - later["start"] == 3600
        urgent, normal = (await answer_to(site, "qos"))["qos"]
        assert urgent["preempts"] == ["normal"] and urgent["limits"] == {}
        assert normal["limits"] == {"max_tres_per_user": {"gres/gpu": 32}, "max_wall": 43_200}


async def test_a_site_without_rules_has_one_partition_and_empty_tables(short_tmp: Path) -> None:
    async with served(short_tmp / "h", store=MemoryStore()) as site:
        await site.add_node("a")
        answer = await answer_to(site, "partitions")
        assert not answer["configured"]
        [only] = answer["partitions"]
        assert (only["name"], only["default"], only["node_list"]) == ("main", True, "a")
        assert (await answer_to(site, "shares"))["shares"] == []
        assert (await answer_to(site, "reservations"))["reservations"] == []
        assert (await answer_to(site, "qos"))["qos"] == []
