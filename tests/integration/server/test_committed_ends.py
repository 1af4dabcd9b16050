"""Ends of steps and jobs are reported after they are on disk, because a node may then forget them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.core import ANN
from tests.support.served import Raw, Served, served

from warpdeck.base.errors import StoreError
from warpdeck.controller.events.events import StepReported, StepRequested
from warpdeck.model import Job, NodeName
from warpdeck.model.step import StepOptions
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore
from warpdeck_agent.wire.steps import ForgetStep, StepReport, TaskEnded


class Disk(MemoryStore):
    """A store that is slow while its gate is closed, and can be full."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.full = False

    async def commit(self, changes: Changes) -> None:
        await self.gate.wait()
        if self.full:
            raise StoreError("cannot write state.db: database or disk is full")
        await super().commit(changes)


async def joined(site: Served) -> tuple[Job, Raw]:
    """Return a job whose step 0 runs on its node, and a client that has joined the step."""
    job, _ = await site.start_job()
    requested = StepRequested(
        principal=ANN, job_id=job.id, options=StepOptions(argv=("true",)), cwd="/", first=NodeName("a")
    )
    await site.controller.apply(requested)
    running = StepReport(job_id=job.id, restarts=0, step=0, phase="running")
    await site.controller.apply(StepReported(name=NodeName("a"), report=running))
    raw = await Raw.connect(site.paths)
    assert (await raw.request("srun_attach", step=f"{job.id}.0"))["t"] == "ok"
    await site.until(lambda: bool(site.fleet.joined))
    return job, raw


async def end(site: Served, job: Job) -> None:
    """Let the node report the end. The state shows it, and the commit is in progress."""
    report = StepReport(job_id=job.id, restarts=0, step=0, phase="exited", ends=[TaskEnded(rank=0, code=3)])
    site.controller.nodes.post((NodeName("a"), report))
    await site.until(lambda: site.controller.state.steps[job.id][0].is_finished)
    await site.fleet.joined[0].ended("")


async def heard_meanwhile(raw: Raw) -> list[str]:
    """Return the messages that arrived before the answer to another request."""
    raw.send("status", id=9)
    kinds = []
    while (message := await raw.next()).get("id") != 9:
        kinds.append(str(message["t"]))
    return kinds


def forgotten(site: Served) -> bool:
    return any(isinstance(message, ForgetStep) for message in site.fleet.sent)


async def test_the_end_of_a_step_is_reported_after_the_commit(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        job, raw = await joined(site)
        disk.gate.clear()
        await end(site, job)
        assert await heard_meanwhile(raw) == [] and not forgotten(site)
        disk.gate.set()
        note, last = await raw.next(), await raw.next()
        assert "Exited with exit code 3" in note["line"]
        assert (last["t"], last["exit"]) == ("end", {"code": 3, "signal": 0})
        await site.until(lambda: forgotten(site))
        raw.writer.close()


async def test_an_end_that_could_not_be_written_is_reported_after_a_later_commit(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        job, raw = await joined(site)
        disk.gate.clear()
        await end(site, job)
        disk.full = True
        disk.gate.set()
        await site.until(lambda: not site.controller.state.steps[job.id][0].is_finished)
        assert await heard_meanwhile(raw) == [] and not forgotten(site)
        disk.full = False
        assert [(await raw.next())["t"], (await raw.next())["t"]] == ["note", "end"]
        raw.writer.close()


async def test_the_end_of_a_followed_job_is_reported_after_the_commit(short_tmp: Path) -> None:
    disk = Disk()
    async with served(short_tmp / "h", store=disk) as site:
        job, agent = await site.start_job()
        raw = await Raw.connect(site.paths)
        raw.send("log", id=1, job=str(job.id), follow=True)
        await site.until(lambda: bool(site.fleet.joined))
        disk.gate.clear()
        site.controller.nodes.post((agent.name, agent.end((job.id, 0), exit_code=3)))
        await site.until(lambda: site.controller.state.jobs[job.id].is_finished)
        await site.fleet.joined[0].ended("")
        assert await heard_meanwhile(raw) == []
        disk.gate.set()
        assert (await raw.next())["exit"] == {"code": 3, "signal": 0}
        raw.writer.close()
