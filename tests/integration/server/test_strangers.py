"""Every changing request of the protocol, sent by a stranger with harmful values.

None changes another user's object or the site, and the audit log has each refusal. A new changing request needs a row here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.server.test_audit import entries
from tests.integration.server.test_server import ANN, BOB
from tests.support.served import Raw, Served, served

from warpdeck.config import decode
from warpdeck.controller.state.reservations import reservations
from warpdeck.protocol import requests as ask
from warpdeck.protocol.site_rows import AuditOutcome
from warpdeck.server.audit.decision import CHANGES
from warpdeck_agent.wire.frames import json_frame

pytestmark = pytest.mark.root

TABLES = """
[accounts.lab.users.4001]
[accounts.other.users.4002]
[hooks]
prolog = "/etc/prolog"
"""
RUNNING, HELD, ENDED = "1", "2", "3"
"""Ann's jobs."""
NOW_UNIX, LATER_UNIX = 2_500_000_000.0, 2_500_003_600.0
RESERVATION = {"name": "r", "nodes": ["a"], "start_unix": NOW_UNIX, "end_unix": LATER_UNIX, "users": ["root"]}
JOBS = [{"jobs": [job]} for job in (RUNNING, HELD, ENDED)]
SCRIPT = {"script": "#!/bin/sh\n", "submit_dir": "/"}
UPDATES: list[dict[str, Any]] = [
    {"comment": "x"}, {"output": "/root/.ssh/authorized_keys"}, {"chdir": "/root"}, {"priority": 2**31}, {"nice": -1000},
    {"admin_comment": "x"}, {"account": "other"}, {"reservation": "r"}, {"time_limit_s": None}, {"mail_user": "x@example.org"},
    {"dependencies": None}, {"nodelist": ["a"]}, {"requeue": False},
]  # fmt: skip
AMENDMENTS: list[list[dict[str, Any]]] = [
    [{"path": ["users", "4002"], "values": {"admin_level": "administrator"}}],
    [{"path": ["accounts", "lab"], "values": {"coordinators": ["4002"]}}],
    [{"path": ["accounts", "lab", "users", "4002"], "values": {"grp_jobs": None}}],
    [{"path": ["accounts", "lab", "users", "4001"], "values": None}],
    [{"path": ["hooks"], "values": {"prolog": "/tmp/evil"}}],
    [{"path": ["containment"], "values": {"devices": False}}],
    [{"path": ["health"], "values": {"program": "/tmp/evil"}}],
    [{"path": ["mail"], "values": {"program": "/tmp/evil"}}],
    [{"path": ["interactive"], "values": {"watch": "all"}}],
    [{"path": ["access"], "values": {"private_data": []}}],
    [{"path": ["accounts"], "values": None}, {"path": ["hooks"], "values": None}],
]
HARM: dict[type, list[dict[str, Any]]] = {
    ask.Submit: [{"request": {**SCRIPT, "reservation": "r"}}, {"request": {**SCRIPT, "admin_comment": "x"}}],
    ask.Rerun: [{"job": job} for job in (RUNNING, HELD, ENDED)],
    ask.Run: [{"words": ["--reservation=r", "id"], "errors": 900}],
    ask.Session: [{"words": ["--pty", "--reservation=r", "sh"]}],
    ask.Srun: [
        {"words": ["--overlap", "--jobid", RUNNING, "id"], "cwd": "/"},
        {"words": ["--reservation=r", "id"]},
    ],
    ask.Salloc: [{"words": ["--reservation=r", "true"]}],
    ask.PutTree: [
        {"tree": "../../evil", "sha256": "0" * 64, "size_bytes": 1},
        {"tree": "", "sha256": "", "size_bytes": 0},
    ],
    ask.Cancel: [*JOBS, *({**each, "signal": "USR1"} for each in JOBS), {"jobs": [f"{RUNNING}.0"]}],
    ask.Hold: [*JOBS, *({**each, "for_owner": True} for each in JOBS)],
    ask.Release: JOBS,
    ask.Requeue: [*JOBS, *({**each, "hold": True, "special_exit": True} for each in JOBS)],
    ask.Pause: [*JOBS, *({**each, "hold": True, "saving_s": 5} for each in JOBS)],
    ask.Suspend: JOBS,
    ask.Resume: JOBS,
    ask.Tell: [{**each, "text": "hello"} for each in JOBS],
    ask.JobUpdate: [{**each, "change": change} for each in JOBS for change in UPDATES],
    ask.JobAnnotate: [{"ids": [int(job)], "annotating": {"comment": "x"}} for job in (RUNNING, HELD, ENDED)],
    ask.CodeRecorded: [{**each, "note": "x"} for each in JOBS],
    ask.Attach: [{"job": RUNNING}, {"job": RUNNING, "watch": True}, {"job": HELD}],
    ask.Tunnel: [
        {"job": RUNNING, "port": 22},
        {"job": RUNNING, "argv": ["id"]},
        {"job": HELD, "argv": ["id"]},
    ],
    ask.Forward: [{"job": RUNNING, "port": 22, "local_port": 22}],
    ask.ForwardEnd: [{"number": number} for number in range(3)],
    ask.NodeAdd: [{"target": "root@127.0.0.1"}, {"target": "-oProxyCommand=id@x"}],
    ask.NodeDrain: [{"name": "a", "reason": "x"}, {"name": "a", "reason": "x", "gpus": [0]}],
    ask.NodeResume: [{"name": "a"}],
    ask.NodeRemove: [{"name": "a", "force": True}],
    ask.ReservationMake: [
        {"reservation": {**RESERVATION, "users": ["4002"]}, "instead": True},
        {"reservation": {**RESERVATION, "name": "mine"}},
    ],
    ask.ReservationRemove: [{"name": "r"}],
    ask.Amend: [{"changes": changes} for changes in AMENDMENTS],
    ask.Reload: [{}],
    ask.Shutdown: [{}],
    ask.Diagnosis: [{"reset": True}],
    ask.Takeover: [{}],
    ask.Recover: [{}, {"discard": True}, {"jobs": [1], "dry_run": True}],
    ask.StandbySet: [{"target": "root@127.0.0.1", "keys": True}],
    ask.StandbyRemove: [{}],
}
UNKNOWN_OBJECTS = (ask.PutTree,)
"""Requests that concern only the stranger's own files, so they fail for another reason than missing rights."""


@asynccontextmanager
async def attacked_site(home: Path) -> AsyncIterator[Served]:
    """A site with a node, a reservation and Ann's running, held and canceled job."""
    config = decode(TABLES, "config.toml").config
    async with served(home, config=config) as site:
        Path(site.paths.config).write_text(TABLES)
        agent = await site.add_node("a")
        root = await Raw.connect(site.paths)
        assert (await root.request("reservation_make", reservation=RESERVATION))["t"] == "ok"
        await root.close()
        ann = await Raw.connect(site.paths, uid=ANN)
        for number, more in enumerate(({}, {"hold": True}, {"hold": True}), start=1):
            request = {**SCRIPT, "time_limit_s": 60, **more}
            assert (await ann.request("submit", request=request, number=number))["t"] == "ok"
        await ann.request("cancel", jobs=[ENDED], number=9)
        await ann.close()
        await site.until(lambda: bool(site.fleet.launches))
        await site.report("a", agent.begin((1, 0)))
        yield site


def everything(site: Served) -> dict[str, Any]:
    """Return all objects of others and of the site."""
    state = site.controller.state
    return {
        "jobs": {job.id: job for job in state.jobs.values() if job.uid != BOB},
        "nodes": dict(state.nodes),
        "reservations": reservations(state, NOW_UNIX),
        "config": site.controller.config,
        "file": Path(site.paths.config).read_text(),
        "stops": site.server.stop.is_set(),
        "statistics": site.controller.statistics.as_dict()["since"],
        "streams": len(site.fleet.joined),
    }


def test_every_changing_request_is_attacked() -> None:
    assert HARM.keys() == CHANGES.keys()


@pytest.mark.parametrize("kind", HARM, ids=lambda kind: str(kind.__struct_config__.tag))
async def test_a_stranger_changes_nothing_and_the_refusal_is_recorded(short_tmp: Path, kind: type) -> None:
    tag = str(kind.__struct_config__.tag)  # type: ignore[attr-defined]
    async with attacked_site(short_tmp / "h") as site:
        before = everything(site)
        bob = await Raw.connect(site.paths, uid=BOB)
        for number, fields in enumerate(HARM[kind], start=1):
            bob.write(json_frame({"t": tag, **fields, "id": number}))
            while (answer := await bob.next()).get("id") != number or answer["t"] == "progress":
                continue
            assert answer["t"] == "error", (fields, answer)
            last = entries(site)[-1]
            assert (last.uid, last.request) == (BOB, tag), (fields, last)
            wanted = AuditOutcome.FAILED if kind in UNKNOWN_OBJECTS else AuditOutcome.REFUSED
            assert last.outcome is wanted, (fields, last)
        await bob.close()
        assert everything(site) == before
        assert [job for job in site.controller.state.jobs.values() if job.uid == BOB] == []
        assert not list((short_tmp / "h").rglob("*evil*"))
