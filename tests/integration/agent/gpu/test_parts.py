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
from warpdeck_agent.start.gpu_sharing import STEP_BYTES, STILL_S, StartGate
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


async def test_a_sharer_waits_until_the_one_before_has_its_memory() -> None:
    clock, said = Clock(), list[str]()
    turns = StartGate(lambda asked, words: said.append(words), clock=clock)
    alive = {(1, 0), (2, 0)}
    await turns.wait(launch(1))
    second = asyncio.ensure_future(turns.wait(launch(2)))
    await eventually_async(lambda: said)
    assert said == ["waits until job 1, which began on the same GPU, has its memory"]
    mem = 0
    for _ in range(4):  # its memory grows
        clock.now, mem = clock.now + 3, mem + GIB
        turns.see(reading(1, mem), [CARD], alive=alive)
        assert not turns.is_settled("GPU-0", 30.0)
    turns.see(reading(1, mem + STEP_BYTES // 2), [CARD], alive=alive)
    clock.now += STILL_S - 0.1
    assert not turns.is_settled("GPU-0", 30.0)
    clock.now += 0.2
    async with asyncio.timeout(30):
        await second
    assert not turns.is_settled("GPU-0", 30.0), "now it is the second that has to settle"


async def test_nobody_waits_for_longer_than_the_bound_nor_for_what_has_ended() -> None:
    clock = Clock()
    turns = StartGate(lambda asked, words: None, clock=clock)
    await turns.wait(launch(1))
    clock.now += 29
    assert not turns.is_settled("GPU-0", 30.0)
    clock.now += 1
    assert turns.is_settled("GPU-0", 30.0)
    await turns.wait(launch(2))
    assert not turns.is_settled("GPU-0", 30.0)
    turns.see(reading(2, 0), [CARD], alive=set())
    assert turns.is_settled("GPU-0", 30.0)


async def test_whole_gpus_and_sites_without_a_guard_wait_for_nobody() -> None:
    turns = StartGate(lambda asked, words: None, clock=Clock())
    await turns.wait(launch(1))
    async with asyncio.timeout(30):
        await turns.wait(launch(2, pct=100))
        await turns.wait(launch(3, most_s=0.0))


async def test_one_that_is_given_up_while_it_waits_never_begins() -> None:
    turns = StartGate(lambda asked, words: None, clock=Clock())
    await turns.wait(launch(1))
    second, third = (asyncio.ensure_future(turns.wait(launch(job))) for job in (2, 3))
    await eventually_async(lambda: turns._waiting == {(2, 0), (3, 0)})
    turns.give_up((2, 0))
    turns.give_up((77, 0))
    with pytest.raises(LaunchError, match="before its turn"):
        await second
    turns.give_up((3, 0))
    with pytest.raises(LaunchError):
        await third


@pytest.mark.lab
def test_a_waiting_sharer_says_so_and_can_be_ended(make_agent: MakeAgent, gpus: Gpus) -> None:
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
    told = agent.link.expect(wire.Remark)
    assert told == wire.Remark(2, 0, "waits until job 1, which began on the same GPU, has its memory")
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
def test_of_four_sharers_the_one_that_takes_more_is_ended_alone(
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
    told = agent.link.expect(wire.Remark, lambda said: "it uses 21.0 GiB" in said.text)
    assert told.job_id == 3 and "its part is 19.2 GiB: it is ended in 1 s" in told.text
    ended = agent.link.report(3, "exited")
    assert "it used 21.0 GiB of GPU 0" in ended.message
    (short_tmp / "go").touch()
    assert [agent.link.report(job, "exited").exit_code for job in (1, 2, 4)] == [1, 2, 4]


@pytest.mark.lab
def test_it_is_said_what_keeps_sharers_apart(make_agent: MakeAgent, gpus: Gpus, short_tmp: Path) -> None:
    gpus.show("gpu 0", "gpu 1 mig=1", "gpu 2 cmode=3")
    agent = make_agent("without", **gpus.environ)
    found = agent.start().inventory.gpus
    assert [gpu.isolation for gpu in found] == ["", "mig", ""]
    daemon = short_tmp / "nvidia-cuda-mps-control"
    shutil.copy("/bin/sleep", daemon)
    mps = subprocess.Popen([str(daemon), "1000"])
    try:
        name = Path(f"/proc/{mps.pid}/comm")
        eventually(lambda: name.read_text().startswith("nvidia-cuda-mps"), what="it runs")
        found = make_agent("with", **gpus.environ).start().inventory.gpus
        assert [gpu.isolation for gpu in found] == ["", "mig", "mps"]
    finally:
        mps.kill()
        mps.wait()
