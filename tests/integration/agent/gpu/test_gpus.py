"""GPU readings from a stand-in NVML library.

A failed reading is reported as unknown and never as 0. A fault of one GPU does not hide the others.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.integration.agent.conftest import Gpus, MakeAgent
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
GIB = 1 << 30
OFTEN_S = 0.1


def begin(make_agent: MakeAgent, gpus: Gpus, *lines: str) -> tuple[AgentProcess, wire.Inventory]:
    """Start an agent on a node with the given GPUs; return the agent and its inventory."""
    gpus.show(*lines)
    agent = make_agent(**gpus.environ)
    agent.serve()
    return agent, agent.connect(sample_interval_s=OFTEN_S).inventory


def sample(agent: AgentProcess, index: int, text: str) -> wire.GpuSample:
    """Return the next reading of a GPU whose repr contains `text`."""
    found = agent.link.expect(wire.Sample, lambda message: text in repr(message.gpus[index]))
    return found.gpus[index]


def test_a_node_without_the_library_has_no_gpus_and_no_error(make_agent: MakeAgent, short_tmp: Path) -> None:
    (short_tmp / "libnvidia-ml.so.1").write_text("this is no library")
    agent = make_agent(LD_LIBRARY_PATH=str(short_tmp))
    found = agent.start().inventory
    assert (found.gpus, found.gpu_error) == ([], "")
    assert found.cpus > 0 and found.mem_bytes > 0


@pytest.mark.parametrize(("code", "text"), [(9, ""), (18, "mismatch"), (999, "NVML")])
def test_a_failing_driver_is_reported_unless_there_is_none(
    make_agent: MakeAgent, gpus: Gpus, code: int, text: str
) -> None:
    _, found = begin(make_agent, gpus, f"init_error {code}", "gpu 0 used=1")
    assert found.gpus == []
    assert text in found.gpu_error if text else found.gpu_error == ""


def test_gpus_are_found_and_read(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent, found = begin(
        make_agent, gpus, f"gpu 0 util=7 used={GIB} temp=41 power=90500", 'gpu 1 name="NVIDIA L4" uuid=GPU-x'
    )
    assert [(gpu.index, gpu.name) for gpu in found.gpus] == [(0, "NVIDIA H100 80GB HBM3"), (1, "NVIDIA L4")]
    assert (found.driver, found.gpu_error, found.gpus[1].uuid) == ("550.54.15", "", "GPU-x")
    read = sample(agent, 0, "util_pct=7")
    assert (read.mem_used_bytes, read.temp_c, read.power_w, read.error) == (GIB, 41, 90.5, "")


def test_a_gpu_lost_at_the_start_does_not_hide_the_others(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent, found = begin(make_agent, gpus, "gpu 0 util=1", "gpu 1 lost=1", "gpu 2 util=3")
    assert [gpu.index for gpu in found.gpus] == [0, 2]
    assert found.gpu_error.startswith("GPU 1: ")
    assert sample(agent, 1, "util_pct=3").index == 2


def test_a_gpu_lost_later_stays_listed_with_an_error(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent, before = begin(make_agent, gpus, "gpu 0 util=1", "gpu 1 util=2")
    gpus.show("gpu 0 util=5", "gpu 1 lost=1")
    read = sample(agent, 1, "the GPU does not answer")
    assert (read.util_pct, read.mem_used_bytes, read.power_w) == (None, None, None)
    assert sample(agent, 0, "util_pct=5").error == ""
    assert agent.connect().inventory.gpus == before.gpus


def test_a_missing_value_of_the_driver_is_unknown_and_not_0(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent, _ = begin(
        make_agent,
        gpus,
        "gpu 0 util=50 temp=44",
        "fault 0 nvmlDeviceGetUtilizationRates 3",
        "fault 0 nvmlDeviceGetPowerUsage 3",
    )
    read = sample(agent, 0, "temp_c=44")
    assert (read.util_pct, read.power_w, read.error) == (None, None, "")


def test_a_hanging_driver_delays_neither_jobs_nor_the_end_of_the_agent(
    make_agent: MakeAgent, gpus: Gpus
) -> None:
    agent, _ = begin(make_agent, gpus, "gpu 0 util=50")
    sample(agent, 0, "util_pct=50")
    gpus.show("gpu 0 util=50 delay_us=60000000")
    read = sample(agent, 0, "the driver does not answer")
    assert (read.util_pct, read.mem_used_bytes) == (None, None)
    assert agent.run(1, "exit 3").exit_code == 3
    agent.link.send(wire.Quit())
    assert agent.process is not None and agent.process.wait(20.0) == 0


def test_gpu_processes_are_attributed_to_jobs_or_named_as_foreign(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent, _ = begin(make_agent, gpus, "gpu 0 util=1")
    agent.launch(6, "setsid sleep 1000 &\nenv -i sleep 1001")
    pids = eventually(lambda: len(children(agent)) == 3 and children(agent), what="the job runs")
    stranger = subprocess.Popen(["sleep", "1002"])
    try:
        holders = [*pids, stranger.pid]
        gpus.show("gpu 0 util=9", *(f"proc 0 pid={pid} mem={GIB} type=C" for pid in holders))
        ours = lambda gpu: [each for each in gpu.processes if each.job_id == 6]  # noqa: E731
        # During an exec, a process briefly belongs to no job.
        read = agent.link.expect(wire.Sample, lambda message: len(ours(message.gpus[0])) == len(pids)).gpus[0]
    finally:
        stranger.kill()
        stranger.wait()
    reported = {process.pid: process for process in read.processes}
    assert {reported[pid].job_id for pid in pids} == {6}
    assert (reported[stranger.pid].job_id, reported[stranger.pid].command) == (0, "sleep")
    assert reported[stranger.pid].user == "root" and reported[stranger.pid].mem_bytes == GIB


def test_a_job_that_exceeds_its_gpu_share_is_ended(make_agent: MakeAgent, gpus: Gpus) -> None:
    card = f"gpu 0 uuid=GPU-0 mem={80 * GIB}"
    agent, _ = begin(make_agent, gpus, card)
    for job, share in ((1, 50), (2, 25)):
        more = {"gpu_share_pct": share, "grace_s": 5.0, "share_grace_s": 0.5}
        agent.launch(job, "echo begun; sleep 1000", gpus=["GPU-0"], **more)
        agent.first_process(job)
        eventually(lambda job=job: agent.processes(job), what=f"job {job} runs")
    held = [f"proc 0 pid={agent.processes(job)[0]} mem={30 * GIB} type=C" for job in (1, 2)]
    gpus.show(card, *held)
    warned = agent.link.expect(wire.Remark)
    assert warned.job_id == 2 and warned.text.startswith(
        "the job uses 30.0 GiB of GPU 0, but its share is 20.0 GiB"
    )
    report = agent.link.report(2, "exited")
    assert report.cause == "oom" and f"warpdeck: {warned.text}" in agent.text(2)
    assert report.message == "the job used 30.0 GiB of GPU 0, but its share is 20.0 GiB"
    assert " CANCELLED AT " in agent.text(2) and "cgroup" not in agent.text(2)
    assert agent.processes(1)


def children(agent: AgentProcess) -> list[int]:
    """Return the pids of the job's shell and its two sleeps; one sleep carries no job tag."""
    shells = agent.processes(6)
    found = set(shells)
    for pid in shells:
        path = Path(f"/proc/{pid}/task/{pid}/children")
        found.update(int(child) for child in path.read_text().split()) if path.exists() else None
    return sorted(found)


def test_gpus_linked_directly_or_through_a_switch_form_an_island(make_agent: MakeAgent, gpus: Gpus) -> None:
    pairs = [
        f"nvlink {one} {link} 1 {other}" for one, other, link in ((0, 1, 0), (1, 0, 0), (2, 3, 4), (3, 2, 4))
    ]
    over_a_switch = ["nvlink 4 0 1 15", "nvlink 5 0 1 15"]
    down = ["nvlink 6 0 0 7", "nvlink 7 0 0 6"]
    # The switch is a device with its own bus id. The stand-in library lists it as one more card, which is
    # shown last.
    cards = [f"gpu {number} used=1" for number in (*range(8), 15)]
    _, found = begin(make_agent, gpus, *cards, *pairs, *over_a_switch, *down)
    assert [gpu.island for gpu in found.gpus][:8] == [0, 0, 1, 1, 2, 2, -1, -1]


def test_samples_follow_the_last_interval_and_new_processes(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent, _ = begin(make_agent, gpus, "gpu 0 util=1")
    agent.connect(sample_interval_s=3600.0)
    agent.link.send(wire.SampleEvery(interval_s=OFTEN_S))
    for _ in range(3):
        agent.link.expect(wire.Sample)
    agent.link.send(wire.SampleEvery(interval_s=3600.0))
    gpus.show("gpu 0 util=2", f"proc 0 pid={os.getpid()} mem={GIB}")
    assert [each.pid for each in sample(agent, 0, "util_pct=2").processes] == [os.getpid()]
    gpus.show("gpu 0 util=3")
    assert sample(agent, 0, "util_pct=3").processes == []
