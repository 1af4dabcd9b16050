"""The audit log of a running controller: every change and every refusal, before the answer is sent."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.integration.server.test_server import ANN, BOB
from tests.support.core import make_request
from tests.support.served import Raw, Served, served
from tests.support.waiting import eventually_async

from warpdeck.config import Config
from warpdeck.config.tables import SiteUser
from warpdeck.model import JobId, NodeName
from warpdeck.ports.caller import Caller, Principal
from warpdeck.protocol import requests as ask
from warpdeck.protocol.request_base import RequestMessage, message_kinds
from warpdeck.protocol.site_rows import AuditEntry, AuditOutcome
from warpdeck.server.audit import recorder
from warpdeck.server.audit.decision import CHANGES, OF_JOBS

READ_ONLY = {
    "Audit", "AwaitEnds", "Command", "ConfigInForce", "Curves", "DryRun", "Events", "Forecast", "ForwardPage", "Forwards", "HaveTree",
    "JobEnvironment", "JobInfo", "Jobs", "Licenses", "LimitUse", "Log", "NodeCheck", "NodeTimeline", "Nodes", "NodesAt", "Partitions",
    "Past", "PastCosts", "PluginOptions", "Priorities", "QosList", "Records", "Reservations", "SallocAttach", "Settings", "Settle",
    "Shares", "SrunAttach", "Standby", "Status", "Steps", "Subscribe",
}  # fmt: skip
"""Requests that change nothing. A command's changes are requests of their own, and the others reconnect."""


ROOT = Caller(Principal(user="root", uid=0, admin=True))


def entries(site: Served, **filters: Any) -> list[AuditEntry]:
    """Return the entries as root sees them."""
    return site.server.audit.entries(ROOT, ask.Audit(**filters)).entries


def test_each_request_is_classified_as_a_change_or_as_reading() -> None:
    kinds = {kind.__name__ for kind in message_kinds(RequestMessage)}
    assert kinds == READ_ONLY | {kind.__name__ for kind in CHANGES}
    assert not READ_ONLY & {kind.__name__ for kind in CHANGES} and set(CHANGES) > OF_JOBS


@pytest.mark.root
async def test_a_change_is_recorded_with_its_user_its_process_and_its_object(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        ann = await Raw.connect(site.paths, uid=ANN)
        job = (await ann.request("submit", request={"script": "#!/bin/sh\n"}))["result"]["label"]
        await ann.request("job_update", jobs=[job], change={"comment": "x" * 1000}, number=2)
        await ann.close()
        submitted, changed = entries(site)
    assert (submitted.uid, submitted.request, submitted.objects) == (ANN, "submit", [job])
    assert submitted.outcome is AuditOutcome.DONE and submitted.origin.startswith(f"pid {os.getpid()} ")
    assert len(changed.details["change"]["comment"]) == 200 and "script" not in str(submitted.details)


@pytest.mark.root
async def test_an_order_for_jobs_of_several_users_has_an_entry_for_each_outcome(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        ann, bob = [await Raw.connect(site.paths, uid=uid) for uid in (ANN, BOB)]
        for raw in (ann, bob):
            await raw.request("submit", request={"script": "#!/bin/sh\n", "hold": True})
        for number, kind in enumerate(("cancel", "hold"), start=10):
            await bob.request(kind, jobs=["1", "2"], number=number)
        for raw in (ann, bob):
            await raw.close()
        found = [(each.request, each.objects, each.outcome) for each in entries(site)[2:]]
    assert found[:2] == [("cancel", ["2"], AuditOutcome.DONE), ("cancel", ["1"], AuditOutcome.REFUSED)]
    assert found[-1] == ("hold", ["1", "2"], AuditOutcome.REFUSED)


async def test_a_change_of_a_client_that_left_before_the_answer_is_recorded(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        raw = await Raw.connect(site.paths)
        raw.send("submit", id=1, request={"script": "#!/bin/sh\n"})
        raw.writer.write_eof()
        await eventually_async(lambda: bool(entries(site)), what="an entry of the audit log")
        await raw.close()
        await eventually_async(lambda: not site.server.connections, what="the end of the connection")
        [entry] = entries(site)
        assert entry.request == "submit" and entry.outcome in (AuditOutcome.DONE, AuditOutcome.UNCERTAIN)


@pytest.mark.root
async def test_refused_connections_and_malformed_messages_are_recorded(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        bob = await Raw.connect(site.paths, uid=BOB)
        bob.send("sing", id=1)
        await bob.rest()
        await bob.close()
        job, agent = await site.start_job()
        ours, theirs = await _pair()
        lost = asyncio.Event()
        await site.server.serve_call(*theirs, JobId(job.id), 7, NodeName(agent.name), lost)
        ours[1].close()
        refused = entries(site, outcomes=(AuditOutcome.REFUSED,))
    assert [(each.uid, each.request, each.code) for each in refused] == [
        (BOB, "?", "malformed"),
        (-1, "connect", "no_job"),
    ]
    assert refused[1].origin == f"job {job.id} on {agent.name}"


async def _pair() -> tuple[
    tuple[asyncio.StreamReader, asyncio.StreamWriter], tuple[asyncio.StreamReader, asyncio.StreamWriter]
]:
    ours, theirs = socket.socketpair()
    return await asyncio.open_connection(sock=ours), await asyncio.open_connection(sock=theirs)


async def test_a_process_of_an_administrators_job_has_no_rights_and_is_recorded_with_its_job_and_node(
    short_tmp: Path,
) -> None:
    config = Config(users={"ann": SiteUser(admin_level="administrator")})
    async with served(short_tmp / "h", config=config) as site:
        job, agent = await site.start_job()
        ours, theirs = await _pair()
        raw = Raw(*ours)
        serving = asyncio.create_task(
            site.server.serve_call(*theirs, job.id, 0, NodeName(agent.name), asyncio.Event())
        )
        raw.send("hello", version=1)
        await raw.next()
        await raw.request("node_drain", name="a", reason="mine")
        await raw.close()
        await serving
        [entry] = entries(site)
    assert (entry.user, entry.origin, entry.outcome) == ("ann", f"job {job.id} on a", AuditOutcome.REFUSED)


@pytest.mark.root
async def test_a_flood_of_refused_requests_is_counted_and_does_not_displace_other_entries(
    short_tmp: Path,
) -> None:
    now = [1000.0]
    async with served(short_tmp / "h", clock=lambda: now[0]) as site:
        bob = await Raw.connect(site.paths, uid=BOB)
        for number in range(1, recorder.MAX_REFUSALS + 51):
            await bob.request("shutdown", number=number)
        assert len(entries(site, limit=10_000)) == recorder.MAX_REFUSALS
        now[0] += 10
        await bob.request("shutdown", number=9999)
        await bob.close()
        assert entries(site)[-1].omitted == 50


@pytest.mark.root
async def test_users_see_their_own_entries_only(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        ann, bob = [await Raw.connect(site.paths, uid=uid) for uid in (ANN, BOB)]
        await ann.request("submit", request={"script": "#!/bin/sh\n"})
        refused = await bob.request("audit")
        own = await bob.request("audit", own=True, users=[str(ANN)], number=2)
        anns = await ann.request("audit", own=True, number=2)
        for raw in (ann, bob):
            await raw.close()
    assert refused["code"] == "not_admin" and own["result"]["entries"] == []
    assert [each["uid"] for each in anns["result"]["entries"]] == [ANN]


async def test_filters_select_entries(short_tmp: Path) -> None:
    now = [100.0]
    async with served(short_tmp / "h", clock=lambda: now[0]) as site, await site.client() as client:
        for _ in range(3):
            await client.ask(ask.Submit(request=make_request(hold=True)))
            now[0] += 100
        await client.ask(ask.Release(jobs=("2",)))
        assert [each.objects for each in entries(site, since=150.0, until=350.0)] == [["2"], ["3"]]
        assert [each.request for each in entries(site, objects=("2",))] == ["submit", "release"]
        assert [each.number for each in entries(site, after=1, limit=2)] == [2, 3]
        assert [each.number for each in entries(site, limit=2)] == [3, 4]
        assert [each.number for each in entries(site, requests=("release",))] == [4]


async def test_a_reload_lists_the_changed_settings(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site, await site.client() as client:
        Path(site.paths.config).write_text("[accounts.lab]\nshares = 3\n")
        await client.ask(ask.Reload())
        [entry] = entries(site)
    assert entry.request == "reload" and entry.details == {"settings": ["accounts.lab: added"]}
