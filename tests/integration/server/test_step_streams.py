"""The time at which a node is asked for the streams of a step: after the step itself, and not again once it
has reported its start.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.support.core import ANN
from tests.support.served import Raw, served

from warpdeck.controller.events.events import StepRequested
from warpdeck.engines.native.processes.step_streams import MAX_INPUT_BYTES
from warpdeck.model import NodeName
from warpdeck.model.step import StepOptions
from warpdeck.store import MemoryStore
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, data_frame
from warpdeck_agent.wire.steps import EVERY_TASK, TASK_HEADER, StepLaunch


async def test_streams_are_requested_after_the_step_was_sent_and_before_its_report(short_tmp: Path) -> None:
    async with served(short_tmp / "h", store=MemoryStore()) as site:
        (job, _), gate = await site.start_job(), asyncio.Event()

        async def send(name: NodeName, message: Any) -> None:
            if isinstance(message, StepLaunch):
                await gate.wait()
            site.fleet.sent.append(message)

        site.fleet.send = send  # type: ignore[method-assign]
        requested = StepRequested(
            principal=ANN, job_id=job.id, options=StepOptions(argv=("true",)), cwd="/", first=NodeName("a")
        )
        await site.controller.apply(requested)
        raw = await Raw.connect(site.paths)
        assert (await raw.request("srun_attach", step=f"{job.id}.0"))["t"] == "ok"
        assert not site.fleet.joined, "the step was not sent yet"
        gate.set()
        await site.until(lambda: bool(site.fleet.joined))
        assert site.controller.state.steps[job.id][0].parts[0].phase == "launching"
        assert isinstance(site.fleet.sent[-1], StepLaunch)
        raw.writer.close()


async def test_a_client_that_exceeds_its_input_window_is_disconnected(short_tmp: Path) -> None:
    async with served(short_tmp / "h", store=MemoryStore()) as site:
        job, _ = await site.start_job()
        requested = StepRequested(
            principal=ANN, job_id=job.id, options=StepOptions(argv=("true",)), cwd="/", first=NodeName("a")
        )
        await site.controller.apply(requested)
        raw = await Raw.connect(site.paths)
        assert (await raw.request("srun_attach", step=f"{job.id}.0", number=1))["t"] == "ok"
        piece = TASK_HEADER.pack(EVERY_TASK, 0, 0) + bytes(DATA_CHUNK_BYTES - TASK_HEADER.size)
        for _ in range(MAX_INPUT_BYTES // DATA_CHUNK_BYTES):
            raw.write(data_frame(1, piece))
        assert (await raw.request("status", number=2))["t"] == "ok", "this amount may wait"
        raw.write(data_frame(1, piece))
        assert "more input than its window" in (await raw.rest())[-1]["message"]
        await raw.close()
