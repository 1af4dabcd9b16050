"""Jobs that share a GPU start one after the other, and each is held to its share.

The inventory states how the jobs on a GPU are isolated from each other.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import Gpus, MakeAgent
from tests.support.waiting import eventually, eventually_async

from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.start.gpu_sharing import GROWTH_BYTES, SETTLED_S, StartGate
from warpdeck_agent.wire import messages as wire

GIB = 1 << 30
CARD = wire.GpuInfo(index=0, uuid="GPU-0", name="x", mem_bytes=80 * GIB)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def launch(job: int, *, pct: int = 25, most_s: float = 30.0) -> wire.Launch:
    return wire.Launch(
        job_id=job,
        restarts=0,
        user="ann",
        uid=1,
        role="batch",
        env={},
        cwd="/",
        cwd_visible=True,
        gpus=["GPU-0"],
        gpu_share_pct=pct,
        share_start_s=most_s,
    )


def reading(job: int, mem: int) -> list[wire.GpuSample]:
    return [wire.GpuSample(index=0, processes=[wire.GpuProcess(pid=job, mem_bytes=mem, job_id=job)])]


async def test_a_sharing_job_waits_until_the_previous_one_has_its_memory() -> None:
    clock, answer = Clock(), list[str]()
    turns = StartGate(lambda message, entry: answer.append(entry), clock=clock)
    alive = {(1, 0), (2, 0)}
    await turns.wait(launch(1))
    second = asyncio.ensure_future(turns.wait(launch(2)))
    await eventually_async(lambda: answer)
    assert answer == ["waits until job 1 has allocated its memory on the shared GPU"]
    mem = 0
    for _ in range(4):  # its memory grows
        clock.now, mem = clock.now + 3, mem + GIB
        turns.update(reading(1, mem), [CARD], alive=alive)
        assert not turns.is_settled("GPU-0", 30.0)
    turns.update(reading(1, mem + GROWTH_BYTES // 2), [CARD], alive=alive)
    clock.now += SETTLED_S - 0.1
    assert not turns.is_settled("GPU-0", 30.0)
    clock.now += 0.2
    async with asyncio.timeout(30):
        await second
    assert not turns.is_settled("GPU-0", 30.0), "now the memory of the second job must settle"


async def test_the_wait_is_bounded_and_ends_with_the_other_job() -> None:
    clock = Clock()
    turns = StartGate(lambda message, entry: None, clock=clock)
    await turns.wait(launch(1))
    clock.now += 29
    assert not turns.is_settled("GPU-0", 30.0)
    clock.now += 1
    assert turns.is_settled("GPU-0", 30.0)
    await turns.wait(launch(2))
    assert not turns.is_settled("GPU-0", 30.0)
    turns.update(reading(2, 0), [CARD], alive=set())
    assert turns.is_settled("GPU-0", 30.0)


async def test_whole_gpus_and_sites_without_a_start_gate_do_not_wait() -> None:
    turns = StartGate(lambda message, entry: None, clock=Clock())
    await turns.wait(launch(1))
    async with asyncio.timeout(30):
        await turns.wait(launch(2, pct=100))
        await turns.wait(launch(3, most_s=0.0))


async def test_a_launch_cancelled_while_it_waits_never_starts() -> None:
    turns = StartGate(lambda message, entry: None, clock=Clock())
    await turns.wait(launch(1))
    second, third = (asyncio.ensure_future(turns.wait(launch(job))) for job in (2, 3))
    await eventually_async(lambda: turns._waiting == {(2, 0), (3, 0)})
    turns.give_up((2, 0))
    turns.give_up((77, 0))
    with pytest.raises(LaunchError, match="while it waited for the shared GPU"):
        await second
    turns.give_up((3, 0))
    with pytest.raises(LaunchError):
        await third


@pytest.mark.lab
def test_a_waiting_job_reports_its_reason_and_can_be_ended(make_agent: MakeAgent, gpus: Gpus) -> None:
    card = f"gpu 0 uuid=GPU-0 mem={80 * GIB}"
    gpus.show(card)
    agent = make_agent(**gpus.environ)
    agent.serve()
    agent.connect(sample_interval_s=0.1)
    share = {"gpus": ["GPU-0"], "gpu_share_pct": 25, "share_start_s": 3600.0}
    agent.launch(1, "sleep 1000", **share)
    agent.link.report(1, "running")
    for job in (2, 3):
        agent.launch(job, "exit 4", **share)
    remark = agent.link.expect(wire.Remark)
    assert remark == wire.Remark(2, 0, "waits until job 1 has allocated its memory on the shared GPU")
    agent.link.send(wire.Kill(job_id=2, restarts=0))
    assert agent.link.expect(wire.LaunchFailed).job_id == 2
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    agent.link.report(1, "exited")
    assert agent.link.report(3, "exited").exit_code == 4


@pytest.fixture
def outside() -> Iterator[int]:
    """The pid of a process outside of the queue."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.mark.lab
def test_only_the_job_that_exceeds_its_gpu_share_is_ended(
    make_agent: MakeAgent, gpus: Gpus, short_tmp: Path, outside: int
) -> None:
    card = f"gpu 0 uuid=GPU-0 mem={80 * GIB}"
    gpus.show(card)
    agent = make_agent(**gpus.environ)
    agent.serve()
    agent.connect(sample_interval_s=0.1)
    share = {"gpus": ["GPU-0"], "gpu_share_pct": 24, "share_start_s": 3600.0, "share_grace_s": 1.0}
    for job in range(1, 5):
        agent.launch(job, f"until [ -e {short_tmp}/go ]; do sleep 0.1; done; exit {job}", **share)
    shown: dict[int, str] = {}

    def show(job: int, gib: int) -> None:
        shown[job] = f"proc 0 pid={outside if job == 0 else agent.first_process(job)} mem={gib * GIB} type=C"
        gpus.show(card, *shown.values())

    for job in range(1, 5):
        agent.link.report(job, "running")
        waiting = [each for each in range(job + 1, 5) if agent.link.has_report(each, "running")]
        assert not waiting, f"{waiting} began before {job} had its memory"
        if job == 2:  # meanwhile a process outside of the queue uses memory that belongs to no sharer
            show(0, 5)
        show(job, 18)
    show(3, 21)
    remark = agent.link.expect(wire.Remark, lambda message: "the job uses 21.0 GiB" in message.text)
    assert remark.job_id == 3 and "its share is 19.2 GiB; it will be ended in 1 s" in remark.text
    ended = agent.link.report(3, "exited")
    assert "the job used 21.0 GiB of GPU 0" in ended.message
    (short_tmp / "go").touch()
    assert [agent.link.report(job, "exited").exit_code for job in (1, 2, 4)] == [1, 2, 4]


@pytest.mark.lab
def test_the_inventory_reports_the_isolation_of_shared_gpus(
    make_agent: MakeAgent, gpus: Gpus, short_tmp: Path
) -> None:
    gpus.show("gpu 0", "gpu 1 mig=1", "gpu 2 cmode=3")
    agent = make_agent("without", **gpus.environ)
    found = agent.start().inventory.gpus
    assert [gpu.isolation for gpu in found] == ["", "mig", ""]
    daemon = short_tmp / "nvidia-cuda-mps-control"
    shutil.copy("/bin/sleep", daemon)
    mps = subprocess.Popen([str(daemon), "1000"])
    try:
        name = Path(f"/proc/{mps.pid}/comm")
        eventually(lambda: name.read_text().startswith("nvidia-cuda-mps"), what="the job runs")
        found = make_agent("with", **gpus.environ).start().inventory.gpus
        assert [gpu.isolation for gpu in found] == ["", "mig", "mps"]
    finally:
        mps.kill()
        mps.wait()
