"""GPUs of jobs over a real Slurm: which ones a job has, and how busy they are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.engines.rig import Rig
from tests.integration.engines.slurm_rig import GRES, NODE, SITE, slurm_rig
from tests.lab.nvml import build_fake_nvml, write_state
from tests.slurm_parity.peer.real_slurm import VERSIONS, RealSlurm
from tests.support.waiting import WAIT_S, eventually, eventually_async, eventually_awaited

from warpdeck.engines.slurm.gpus.samplers import KEEP_S, RETRY_S
from warpdeck.engines.slurm.jobs import SlurmJobs
from warpdeck.engines.slurm.site import SlurmSite
from warpdeck.model import JobId, NodeName
from warpdeck.protocol import requests as ask
from warpdeck.protocol.node_rows import GpuRow

GIB = 1 << 30
GATHERED = "JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=task=1\n"
GPU_PLUGIN = """\
#!/bin/sh
# Adds what Slurm's GPU plugin would gather, which needs a driver.
{sstat} "$@" | sed 's,cpu=,gres/gpumem=2G\\,gres/gpuutil=60\\,cpu=,'
"""
pytestmark = [pytest.mark.slurm, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def driver() -> Iterator[Path]:
    """The folder of a stand-in NVML library, with its state file and a task prolog that makes programs in jobs find it.

    Jobs of all users reach it.
    """
    with tempfile.TemporaryDirectory(prefix="wdn", dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        build_fake_nvml(folder)
        write_state(folder / "state", gpus=4)
        prolog = folder / "prolog"
        prolog.write_text(
            f'#!/bin/sh\necho "print a prolog printed this"\n'
            f'echo "export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH"\necho "export FAKE_NVML_STATE={folder}/state"\n'
        )
        prolog.chmod(0o755)
        yield folder


@pytest.fixture(scope="module", params=VERSIONS)
def slurm(request: pytest.FixtureRequest, driver: Path) -> Iterator[RealSlurm]:
    site = f"{SITE}{GATHERED}TaskProlog={driver}/prolog\n"
    with RealSlurm(site, nodes=(NODE,), gres=GRES, version=request.param) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    async for made in slurm_rig(slurm):
        yield made


async def sbatch(rig: Rig, slurm: RealSlurm, *options: str, script: str = "sleep 600") -> str:
    """Submit a job with sbatch itself, and return its number when it runs."""
    argv = ["sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}"]
    job = (await asyncio.to_thread(slurm.ok, *argv)).strip()
    await rig.until(job, lambda row: row.state == "RUNNING")
    return job


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
    pair = await sbatch(rig, slurm, "--gres=gpu:2", "-J", "pair")
    single = await sbatch(
        rig, slurm, "--gpus=1", "-J", "x\nJobId=99 JobName=y   Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:1(IDX:3)"
    )
    found = await looked(rig, lambda gpus: [gpu.job for gpu in gpus.values()] == [pair, pair, single, ""])
    # The GPU of the second job follows from those of the first one.
    assert found[0].job_user == "root" and found[3].job_user == ""
    assert await indexes(rig, pair) == [0, 1]
    assert await indexes(rig, single) == [-1], "its own name hides its block"
    await rig.cancel(pair, single)
    await rig.reached(pair)
    assert await indexes(rig, pair) == [0, 1], "the record of an ended job keeps its GPUs"


async def test_the_gpus_of_a_job_are_measured_while_somebody_looks_at_it(
    rig: Rig, slurm: RealSlurm, driver: Path
) -> None:
    first = await sbatch(rig, slurm, "--gres=gpu:1")
    pid_file = rig.folder / "pid"
    job = await sbatch(rig, slurm, "--gres=gpu:2", script=f"echo $$ > {pid_file}; sleep 600")
    pid = int(await eventually_async(lambda: pid_of(pid_file)))
    write_state(driver / "state", gpus=4, util=40, processes=[(1, pid, GIB)])

    async def shows(util: int | None) -> bool:
        return [gpu.util_pct for gpu in (await rig.detail(job)).gpus] == [util, util]

    await eventually_awaited(lambda: shows(40), what="40 % are shown")
    detail = await rig.detail(job)
    assert [(gpu.index, gpu.source, gpu.mem_used_bytes) for gpu in detail.gpus] == [
        (1, "sampler", GIB),
        (2, "sampler", 0),
    ]
    assert (
        detail.row.gpu_util_pct == 40 and detail.row.gpu_mem_bytes == GIB and detail.gpus[0].mem_bytes > GIB
    )
    rows = await looked(rig, lambda gpus: gpus[1].job == job and gpus[1].util_pct == 40)
    assert [(process.pid, process.job) for process in rows[1].processes] == [(pid, job)]
    assert rows[1].temp_c is not None and rows[1].power_w is not None
    assert rows[0].job == first and rows[3].util_pct is None
    write_state(driver / "state", gpus=4, util=90)
    await eventually_awaited(lambda: shows(90), what="90 % are shown")
    assert len(await steps(slurm, job)) == 1, "all looks at a job share one step"
    assert isinstance(rig.engine.jobs, SlurmJobs)
    rig.engine.jobs.samplers.keep_s = 0.5
    await rig.detail(job)

    async def has_ended() -> bool:
        return not await steps(slurm, job)

    try:
        await eventually_awaited(has_ended, what="the step has ended")
        [row] = (await rig.engine.jobs.rows(rig.user, ask.Jobs(ids=(job,))))[0:1]
        assert not isinstance(row, dict) and row.gpu_util_pct is None
    finally:
        rig.engine.jobs.samplers.keep_s = KEEP_S
    await rig.cancel(first, job)
    await rig.reached(job)


async def test_the_jobs_on_an_open_screen_are_measured_until_it_is_closed(
    rig: Rig, slurm: RealSlurm, driver: Path
) -> None:
    write_state(driver / "state", gpus=4, util=70)
    job = await sbatch(rig, slurm, "--gres=gpu:3")
    await looked(rig, lambda gpus: [gpu.util_pct for gpu in gpus.values()] == [70, 70, 70, None])
    assert isinstance(rig.engine.jobs, SlurmJobs)
    samplers = rig.engine.jobs.samplers
    samplers.keep_s = 0.5
    with samplers.screen():  # A screen that is open for a moment only.
        pass

    async def has_ended() -> bool:
        return not await steps(slurm, job)

    try:
        await eventually_awaited(has_ended, what="the step has ended")
    finally:
        samplers.keep_s = KEEP_S
    await rig.cancel(job)
    await rig.reached(job)


async def test_a_job_that_nobody_has_measured_tells_when_the_first_reading_comes(
    rig: Rig, slurm: RealSlurm
) -> None:
    job = await sbatch(rig, slurm, "--gres=gpu:1")
    wait_s = (await rig.detail(job)).first_reading_in_s
    assert wait_s is not None and 0 < wait_s <= 10

    async def is_measured() -> bool:
        detail = await rig.detail(job)
        return detail.gpus[0].util_pct is not None and detail.first_reading_in_s is None

    await eventually_awaited(is_measured, what="the first reading")
    await rig.cancel(job)
    await rig.reached(job)


async def test_a_job_that_a_screen_has_measured_in_vain_promises_no_first_reading(
    rig: Rig, slurm: RealSlurm, driver: Path
) -> None:
    write_state(driver / "state", gpus=0)
    job = await sbatch(rig, slurm, "--gres=gpu:1")
    assert isinstance(rig.engine.jobs, SlurmJobs)
    samplers = rig.engine.jobs.samplers
    with samplers.screen():

        async def is_started() -> bool:
            return bool(await steps(slurm, job))

        await eventually_awaited(is_started, what="the step of the screen")
        await rig.detail(job)  # The look does not start another step.
        now = time.monotonic() + RETRY_S + 1
        samplers.monotonic = lambda: now
        try:
            assert (await rig.detail(job)).first_reading_in_s is None
        finally:
            samplers.monotonic = time.monotonic
            write_state(driver / "state", gpus=4)
    await rig.cancel(job)
    await rig.reached(job)


async def test_sstat_tells_how_busy_the_gpus_are_where_the_site_gathers_it(
    rig: Rig, slurm: RealSlurm
) -> None:
    sstat = rig.folder.parent / "bin" / "sstat"
    sstat.rename(sstat.with_name("real-sstat"))
    sstat.write_text(GPU_PLUGIN.format(sstat=sstat.with_name("real-sstat")))
    sstat.chmod(0o755)
    assert isinstance(rig.engine.site, SlurmSite)
    # slurmctld accepts this setting only with slurmdbd.
    rig.engine.site.cluster.config["AccountingStorageTRES"] = "cpu,gres/gpu,gres/gpuutil"
    job = await sbatch(rig, slurm, "--gres=gpu:2")
    await rig.until(job, lambda row: row.gpu_util_pct == 30)
    detail = await rig.detail(job)
    assert [(gpu.util_pct, gpu.mem_used_bytes, gpu.source) for gpu in detail.gpus] == [(30, GIB, "sstat")] * 2
    assert rig.engine.site.about().problem == ""
    await rig.cancel(job)
    await rig.reached(job)
    rows = await looked(rig, lambda gpus: not any(gpu.job for gpu in gpus.values()))
    assert {gpu.util_pct for gpu in rows.values()} == {None}


async def test_agents_of_the_site_measure_the_jobs_of_all_users_before_any_sampler(
    rig: Rig, slurm: RealSlurm, driver: Path, tmp_path: Path
) -> None:
    assert isinstance(rig.engine.jobs, SlurmJobs)
    agents = rig.engine.jobs.agents
    write_state(driver / "state", gpus=4, util=55)
    tmp_path.chmod(0o755)
    argv = ("sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", "--wrap=sleep 600")
    foreign = slurm.run(argv, user="nobody", cwd=Path("/tmp")).out.strip()
    job = await sbatch(rig, slurm, "--gres=gpu:2")
    agents.folder = str(tmp_path)
    try:
        with agent_on_node(tmp_path, driver):
            wanted = [(foreign, 55), (job, 55), (job, 55), ("", 55)]
            rows = await looked(
                rig, lambda gpus: [(gpu.job, gpu.util_pct) for gpu in gpus.values()] == wanted
            )
            detail = await rig.detail(job)
            assert [(gpu.index, gpu.util_pct, gpu.source) for gpu in detail.gpus] == [
                (1, 55, "site agent"),
                (2, 55, "site agent"),
            ]
            assert detail.row.gpu_util_pct == 55 and not rows[1].processes
        for age_s, source in ((40, "site agent, 4"), (70, "")):
            agents.readings.drop_of_agents(before=float("inf"))
            write_aged(tmp_path, age_s)
            assert await agents.look(JobId(int(job))) is bool(source)
            reading = agents.cluster.state.node_status.readings.get(NodeName(NODE))
            sources = [gpu.source for gpu in reading.gpus] if reading is not None else [""]
            assert all(found.startswith(source) for found in sources)
        tmp_path.chmod(0o777)
        write_aged(tmp_path, 0)
        assert not await agents.look(JobId(int(job))), "others may write there"
    finally:
        agents.folder = ""
    agents.readings.drop_of_agents(before=float("inf"))
    await asyncio.to_thread(slurm.ok, "scancel", foreign)
    await rig.cancel(job)
    await rig.reached(job)


def write_aged(folder: Path, age_s: float) -> None:
    """Replace the last reading by one that is older."""
    path = folder / f"{NODE}.json"
    line = json.loads(path.read_text())
    new = folder / "new"
    new.write_text(json.dumps({**line, "at_unix": time.time() - age_s}))
    new.rename(path)


@contextlib.contextmanager
def agent_on_node(folder: Path, driver: Path) -> Iterator[None]:
    """Run the program that an administrator starts on the node, until it has written its first reading."""
    argv = [sys.executable, "-m", "warpdeck_agent", "readings", str(folder), NODE]
    environ = {**os.environ, "LD_LIBRARY_PATH": str(driver), "FAKE_NVML_STATE": str(driver / "state")}
    with subprocess.Popen(argv, env=environ) as process:
        try:
            eventually((folder / f"{NODE}.json").exists, what="the first reading")
            yield
        finally:
            process.terminate()


def pid_of(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def steps(slurm: RealSlurm, job: str) -> list[str]:
    """Return the steps of a job that srun started."""
    words = ("squeue", "--steps", "--noheader", f"--jobs={job}", "--format=%i")
    found = (await asyncio.to_thread(slurm.ok, *words)).split()
    return [step for step in found if step.rpartition(".")[2].isdigit()]
