"""The gateway records readings of GPUs over time, also across its own restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.engines.slurm_rig import NODE, commands_of, small_slurm
from tests.integration.engines.test_slurm_sessions import USER, gateway_in
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import temporary_home
from tests.support.waiting import eventually_awaited

from warpdeck.base.errors import UserError
from warpdeck.engines.shared.history import StateHistory
from warpdeck.engines.slurm.gpus.readings import SAMPLER, GpuReadings
from warpdeck.engines.slurm.history.curves import Recorder, SlurmCurves
from warpdeck.engines.slurm.jobs import SlurmJobs
from warpdeck.model import GpuReading, JobId, NodeName
from warpdeck.ports.engine import Engine
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import CurveRow
from warpdeck.protocol.node_rows import NodeRow

pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]
GIB = float(1 << 30)


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with small_slurm() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def folder(slurm: RealSlurm) -> AsyncIterator[Path]:
    with temporary_home() as home:
        home.path.mkdir()
        commands_of(slurm, home.path.parent)
        yield home.path.parent


def readings_of(engine: Engine) -> GpuReadings:
    assert isinstance(engine.jobs, SlurmJobs)
    return engine.jobs.samplers.readings


def recorder_of(engine: Engine) -> Recorder:
    assert isinstance(engine.history, StateHistory) and isinstance(engine.history.curve_reader, SlurmCurves)
    return engine.history.curve_reader.recorder


def gpus(*utils: int) -> list[GpuReading]:
    """Return readings of the GPUs from 0 on, with a GiB of memory each."""
    return [
        GpuReading(index=index, util_pct=util, mem_used_bytes=1 << 30, power_w=100.0, source=SAMPLER)
        for index, util in enumerate(utils)
    ]


async def running_job(engine: Engine, slurm: RealSlurm) -> tuple[JobId, float]:
    """Start a job with two GPUs, and return its number and its start."""
    argv = ("sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:2", "--wrap=sleep 600")
    job = (await asyncio.to_thread(slurm.ok, *argv)).strip()

    async def has_gpus() -> float:
        try:
            detail = await engine.jobs.detail(USER, ask.JobInfo(job=job))
        except UserError:
            return 0.0
        is_known = [gpu.index for gpu in detail.gpus] == [0, 1]
        return (detail.row.start or 0.0) if is_known and detail.row.state == "RUNNING" else 0.0

    return JobId(int(job)), await eventually_awaited(has_gpus, what="the job runs")


async def curves(engine: Engine, *, job: str = "", node: str = "", step_s: float = 1.0) -> list[CurveRow]:
    return (await engine.history.curves(USER, ask.Curves(job=job, node=node, step_s=step_s))).curves


def known(curve: CurveRow) -> list[float]:
    return [point for point in curve.columns["gpu_util_pct"] if point is not None]


async def test_the_use_of_a_jobs_gpus_is_recorded_from_its_start_on(slurm: RealSlurm, folder: Path) -> None:
    async with gateway_in(folder) as engine:
        job, start = await running_job(engine, slurm)
        readings = readings_of(engine)
        for at_s, utils in ((3, (10, 30)), (3, (40, 40)), (25, (90, 100))):
            readings.put(job, NodeName(NODE), gpus(*utils), at_unix=start + at_s)
        readings.put(job, NodeName(NODE), gpus(50), at_unix=start + 33)
        [curve] = await curves(engine, job=str(job))
        assert (curve.node, curve.begin, curve.step_s) == (NODE, start, 10.0)
        # A reading of one GPU alone tells nothing about the job.
        assert curve.columns["gpu_util_pct"] == (30.0, None, 95.0)
        assert curve.columns["gpu_mem_bytes"] == (2 * GIB, None, 2 * GIB)
        recorder_of(engine).clock = lambda: start + 40
        whole, *cards = await curves(engine, node=NODE, step_s=10)
        assert whole.gpu is None and "mem_bytes" in whole.columns
        assert [card.gpu for card in cards] == [0, 1]
        assert [card.step_s for card in (whole, *cards)] == [60.0, 10.0, 10.0]
        assert known(cards[1]) == [35.0, 100.0]
        assert len(cards[1].columns["gpu_util_pct"]) == 720, "two hours, so that the axis of a chart is right"
        with pytest.raises(UserError, match="single steps"):
            await curves(engine, job=f"{job}.0")
        with pytest.raises(UserError, match="no node"):
            await curves(engine, node="n9")
        await asyncio.to_thread(slurm.ok, "scancel", str(job))


async def test_a_curve_continues_after_a_restart_and_stays_after_the_end(
    slurm: RealSlurm, folder: Path
) -> None:
    async with gateway_in(folder) as engine:
        job, start = await running_job(engine, slurm)
        readings_of(engine).put(job, NodeName(NODE), gpus(20, 20), at_unix=start + 1)
    async with gateway_in(folder) as engine:
        await eventually_awaited(
            lambda: has_gpus_again(engine, job), what="the GPUs of the job are known again"
        )
        assert (await curves(engine, job=str(job)))[0].columns["gpu_util_pct"] == (20.0,)
        # So late that the steps have become twice as long.
        readings_of(engine).put(job, NodeName(NODE), gpus(60, 60), at_unix=start + 1500)
        [curve] = await curves(engine, job=str(job))
        assert curve.step_s == 20.0 and len(curve.columns["gpu_util_pct"]) == 76
        assert (curve.columns["gpu_util_pct"][0], curve.columns["gpu_util_pct"][-1]) == (20.0, 60.0)
        await asyncio.to_thread(slurm.ok, "scancel", str(job))

        async def has_ended() -> bool:
            return (await engine.jobs.detail(USER, ask.JobInfo(job=str(job)))).row.state == "CANCELLED"

        await eventually_awaited(has_ended, what="the job has ended")
        await recorder_of(engine).save()
        assert await curves(engine, job=str(job)) == [curve]
    async with gateway_in(folder) as engine:
        assert await curves(engine, job=str(job)) == [curve]


async def has_gpus_again(engine: Engine, job: JobId) -> bool:
    detail = await engine.jobs.detail(USER, ask.JobInfo(job=str(job)))
    return [gpu.index for gpu in detail.gpus] == [0, 1]


async def test_a_node_is_recorded_from_the_first_look_on(slurm: RealSlurm, folder: Path) -> None:
    async with gateway_in(folder) as engine:
        readings = readings_of(engine)
        readings.put_of_agent(NodeName(NODE), gpus(10, 10, 10, 10), at_unix=time.time())
        assert len(await curves(engine, node=NODE)) == 1, "nobody has looked at the node or has a job there"
        readings.put_of_agent(NodeName(NODE), gpus(70, 80, 90, 100), at_unix=time.time())
        whole, *cards = await curves(engine, node=NODE, step_s=60)
        [row] = (await engine.nodes.rows(USER, ask.Nodes(name=NODE)))[0:1]
        assert isinstance(row, NodeRow) and row.cpu_pct is not None
        assert whole.columns["cpu_pct"][-1] == pytest.approx(row.cpu_pct * row.cpus, abs=0.1), (
            "100 % is one CPU"
        )
        assert [known(card) for card in cards] == [[70.0], [80.0], [90.0], [100.0]]
        assert {len(card.columns["gpu_util_pct"]) for card in cards} == {1440}
