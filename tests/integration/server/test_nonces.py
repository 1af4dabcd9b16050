"""Every request is classified by whether it creates something and therefore carries a nonce."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

from tests.support.served import Raw, served

from warpdeck.controller.events.events import NodeAdded
from warpdeck.model import Node, NodeName
from warpdeck.protocol import requests
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.request_base import Creating
from warpdeck.store import MemoryStore

NONCE = "5" * 32

CREATES = {"Command", "NodeAdd", "Rerun", "ReservationMake", "Run", "Salloc", "Session", "Srun", "Submit"}
CREATES_NOTHING_TWICE = {
    "Ack",
    "Amend",
    "Attach",
    "Audit",
    "AwaitEnds",
    "AwaitMore",
    "Cancel",
    "Close",
    "CodeRecorded",
    "ConfigInForce",
    "Curves",
    "Diagnosis",
    "DryRun",
    "End",
    "Events",
    "FileRead",
    "Forecast",
    "Forward",
    "ForwardEnd",
    "ForwardPage",
    "Forwards",
    "HaveTree",
    "Hello",
    "Hold",
    "JobAnnotate",
    "JobEnvironment",
    "JobInfo",
    "JobUpdate",
    "Jobs",
    "Licenses",
    "LimitUse",
    "Log",
    "NodeCheck",
    "NodeDrain",
    "NodeRemove",
    "NodeResume",
    "Nodes",
    "NodesAt",
    "Partitions",
    "Past",
    "PastCosts",
    "Pause",
    "PluginOptions",
    "Priorities",
    "PutTree",
    "QosList",
    "Records",
    "Recover",
    "Release",
    "Reload",
    "Requeue",
    "ReservationRemove",
    "Reservations",
    "Resize",
    "Resume",
    "SallocAttach",
    "Settings",
    "Settle",
    "Shares",
    "Shutdown",
    "SrunAttach",
    "Standby",
    "StandbyRemove",
    "StandbySet",
    "Status",
    "StepOrder",
    "Steps",
    "Subscribe",
    "Suspend",
    "Takeover",
    "Tell",
    "NodeTimeline",
    "Tunnel",
}
"""Queries, commands that change nothing when repeated, and objects created by name.

No client repeats any of these by itself where that could act twice. Amend and JobAnnotate set values, so a
repetition finds
them set. Forward belongs to its connection and ends with it. Requeue is requested by a person, and a
repetition is rejected while
the job waits ("already waiting").
"""


def test_every_request_is_classified_as_creating_or_not() -> None:
    of_clients = {each.__name__: each for each in get_args(requests.ClientMessage)}
    assert {name for name, each in of_clients.items() if issubclass(each, Creating)} == CREATES
    assert of_clients.keys() - CREATES == CREATES_NOTHING_TWICE


def maintenance(name: str) -> dict[str, Any]:
    return {"name": name, "nodes": ["a"], "start_unix": 1.0, "maintenance": True}


async def test_a_repeated_reservation_request_gets_the_same_answer(short_tmp: Path) -> None:
    store = MemoryStore()
    async with served(short_tmp / "1", store=store) as site:
        await site.add_node("a")
        raw = await Raw.connect(site.paths)
        first = await raw.request("reservation_make", nonce=NONCE, reservation=maintenance("m"))
        later = await raw.request("reservation_make", nonce=NONCE, reservation=maintenance("m"), number=2)
        other = await raw.request("reservation_make", nonce=NONCE, reservation=maintenance("n"), number=3)
        restarted = await raw.request(
            "reservation_make", nonce="6" * 32, reservation=maintenance("m"), number=4
        )
        await raw.close()
    assert (first["t"], later["t"], list(site.controller.state.reserved)) == ("ok", "ok", ["m"])
    assert other["code"] == "nonce" and "which created m" in other["message"]
    assert restarted["code"] == "reservation_exists"
    async with served(short_tmp / "2", store=store) as site:
        raw = await Raw.connect(site.paths)
        after = await raw.request("reservation_make", nonce=NONCE, reservation=maintenance("m"))
        await raw.close()
    assert after["t"] == "ok"


async def test_a_repeated_node_request_gets_the_same_answer(short_tmp: Path) -> None:
    requested = requests.NodeAdd(id=1, nonce=NONCE, target="root@b", name="b")
    async with served(short_tmp / "h", store=MemoryStore()) as site:
        await site.controller.apply(
            NodeAdded(node=Node(name=NodeName("b")), uid=os.getuid(), request_id=mark_of(requested))
        )
        raw = await Raw.connect(site.paths)
        later = await raw.request("node_add", nonce=NONCE, target="root@b", name="b", number=2)
        restarted = await raw.request("node_add", nonce="6" * 32, target="root@b", name="b", number=3)
        await raw.close()
    assert (later["t"], later["result"]["name"]) == ("ok", "b")
    assert "node b already exists" in restarted["message"]
