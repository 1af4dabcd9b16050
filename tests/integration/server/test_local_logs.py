"""If a log's node does not answer, the log is read on the submit host: as the job's user, and only from
regular files.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.core import ANN, BOB, Agent, make_request
from tests.support.processes import kill, running
from tests.support.served import QuietFleet, Raw, Served, served

from warpdeck.base.errors import RemoteError
from warpdeck.controller.events.events import Submitted
from warpdeck.fleet.userfiles import UserFiles
from warpdeck.model import NodeName
from warpdeck.ports.caller import Principal
from warpdeck.ports.ports import OutputFile
from warpdeck.sim.demo import NoOutputs
from warpdeck_agent.wire.frames import JSON, parse_json, read_frame

pytestmark = pytest.mark.root


class AwayFleet(QuietFleet):
    """A fleet whose nodes accept jobs, but open no stream."""

    async def open_stream(self, name: NodeName, message: Any, sink: Any) -> Any:
        raise RemoteError(name, "it is away")


class Here(NoOutputs):
    """Files of this machine."""

    def __init__(self) -> None:
        self.files = UserFiles(answer_s=4.0)

    async def read(self, path: str, *, uid: int) -> OutputFile:
        return await self.files.read(path, uid=uid)


@pytest.fixture
async def site(short_tmp: Path) -> AsyncIterator[Served]:
    here, fleet = Here(), AwayFleet()
    async with served(short_tmp / "h", fleet=fleet, outputs=here) as served_site:
        yield served_site
    await here.files.close()


async def job_of(site: Served, who: Principal, path: Path) -> str:
    """Return a running job that writes to this file."""
    agent = Agent("a")
    if not site.controller.state.nodes:
        await site.add_node("a")
    outcome = await site.controller.apply(Submitted(principal=who, request=make_request(output=str(path))))
    assert outcome.job is not None
    job_id = outcome.job.id
    await site.until(lambda: any(each.job_id == job_id for each in site.fleet.launches))
    await site.report("a", agent.begin((job_id, 0)))
    return str(job_id)


async def log_of(site: Served, path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the answer to a request for the log of Ann's job with this output file, and the data sent."""
    job = await job_of(site, ANN, path)
    raw = await Raw.connect(site.paths)
    answer = await raw.request("log", job=job)
    sent = b""
    if answer["t"] == "ok":
        while (frame := await read_frame(raw.reader))[0] != JSON or parse_json(frame[1])["t"] != "end":
            sent += b"" if frame[0] == JSON else frame[1][4:]
    await raw.close()
    return answer, sent


async def test_a_regular_file_of_the_user_is_sent(site: Served, short_tmp: Path) -> None:
    path = short_tmp / "own.out"
    path.write_text("as written")
    path.chmod(0o600)
    os.chown(path, ANN.uid, -1)
    answer, sent = await log_of(site, path)
    assert answer["result"]["size_bytes"] == len("as written") and sent == b"as written", answer


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("secret", "Permission denied"),
        ("link", "Permission denied"),
        ("pipe", "not a regular file"),
        ("device", "not a regular file"),
    ],
)
async def test_other_files_are_refused(site: Served, short_tmp: Path, kind: str, message: str) -> None:
    secret, path = short_tmp / "of-another", short_tmp / "job.out"
    secret.write_text("secret")
    secret.chmod(0o600)
    if kind == "pipe":
        os.mkfifo(path)
        os.chown(path, ANN.uid, -1)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else secret)
    answer, sent = await log_of(site, secret if kind == "secret" else path)
    assert answer["t"] == "error" and message in answer["message"] and not sent


async def test_hanging_files_of_a_user_delay_no_other_user(site: Served, short_tmp: Path) -> None:
    """A stopped process that reads a user's files behaves like one whose file system hangs."""
    jobs = {}
    for who in (ANN, BOB):
        path = short_tmp / f"{who.user}.out"
        path.write_text(who.user)
        os.chown(path, who.uid, -1)
        jobs[who] = await job_of(site, who, path)
    first, second, others = [await Raw.connect(site.paths) for _ in range(3)]
    assert (await first.request("log", job=jobs[ANN]))["t"] == "ok"
    [child] = running("outputfile.py", f"\0{ANN.uid}\0")
    os.kill(child, signal.SIGSTOP)
    try:
        hanging = asyncio.create_task(second.request("log", job=jobs[ANN]))
        assert (await others.request("jobs"))["t"] == "ok"
        assert (await others.request("log", number=2, job=jobs[BOB]))["t"] == "ok"
        assert not hanging.done()
        assert "file system does not answer" in (await hanging)["message"]
        later = await second.request("log", job=jobs[ANN])
        assert "does not answer" in later["message"], "the server is not asked again"
    finally:
        kill([child])
    for raw in (first, second, others):
        await raw.close()
