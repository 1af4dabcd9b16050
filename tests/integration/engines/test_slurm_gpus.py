"""GPUs of jobs over a real Slurm: which ones a job has, and how busy they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
from tests.integration.engines.contract import Rig
from tests.integration.engines.slurm_rig import slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import VERSIONS, RealSlurm
from tests.support.waiting import WAIT_S

from warpdeck.protocol import requests as ask
from warpdeck.protocol.node_rows import GpuRow

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module", params=VERSIONS)
def slurm(request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    with small_slurm(request.param) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


async def sbatch(slurm: RealSlurm, *options: str) -> str:
    """Submit a job with sbatch itself, and return its number."""
    argv = ["sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 600"]
    return (await asyncio.to_thread(slurm.ok, *argv)).strip()


async def indexes(rig: Rig, job: str) -> list[int]:
    return [gpu.index for gpu in (await rig.detail(job)).gpus]


async def looked(rig: Rig, reached: Callable[[dict[int, GpuRow]], bool]) -> dict[int, GpuRow]:
    """Look at the cluster until the GPUs of the node satisfy the condition, and return them by index."""
    changes = rig.engine.jobs.changes(rig.user, ask.Subscribe(topics=("nodes",)))
    rows: dict[int, GpuRow] = {}
    async with asyncio.timeout(WAIT_S), contextlib.aclosing(changes):
        async for build in changes:
            for node in (await build()).nodes:
                rows = {gpu.index: gpu for gpu in node.gpus}
            if rows and reached(rows):
                break
    return rows


async def test_each_gpu_shows_the_job_that_has_it(rig: Rig, slurm: RealSlurm) -> None:
    pair = await sbatch(slurm, "--gres=gpu:2", "-J", "pair")
    await rig.reached(pair, start=True)
    single = await sbatch(
        slurm, "--gpus=1", "-J", "x\nJobId=99 JobName=y   Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:1(IDX:3)"
    )
    await rig.reached(single, start=True)
    found = await looked(rig, lambda gpus: [gpu.job for gpu in gpus.values()] == [pair, pair, single, ""])
    # The GPU of the second job follows from those of the first one.
    assert found[0].job_user == "root" and found[3].job_user == ""
    assert await indexes(rig, pair) == [0, 1]
    assert await indexes(rig, single) == [-1], "its own name hides its block"
    await rig.cancel(pair, single)
    await rig.reached(pair)
    assert await indexes(rig, pair) == [0, 1], "the record of an ended job keeps its GPUs"
