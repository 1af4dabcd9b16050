"""Resource usage of launches and nodes: sums, curves in bounded memory, and the same from a real agent."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integration.agent.conftest import Gpus, MakeAgent
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.launch.launch_usage import per_task_minmax
from warpdeck_agent.linux.cpu_time import CpuTime, from_times
from warpdeck_agent.metrics.bounded_record import MOST, BoundedRecord, Rings
from warpdeck_agent.metrics.metering import FILE, LONGEST_S, UsageMeter
from warpdeck_agent.monitor.process_sampler import (
    MAX_PAUSE_S,
    MIN_PAUSE_S,
    OUTSIDE_STEPS,
    pause_s,
    sample_processes,
)
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.tasks.task import make_folder
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire
from warpdeck_agent.wire.messages import RINGS
from warpdeck_agent.wire.steps import StepReport

GIB = 1 << 30
MIB = 1 << 20
BEGIN = 1_000_000.0


# ---- records and ring buffers


def test_a_short_run_is_recorded_by_the_second() -> None:
    record = BoundedRecord(BEGIN)
    for second in range(4):
        record.add({"gpu_util_pct": 10.0 * second, "gpu_power_w": None}, BEGIN + second + 0.5)
    record.add({}, BEGIN + 4)
    curve = record.curve()
    assert (curve.begin_unix, curve.step_s) == (BEGIN, 1.0)
    assert curve.gpu_util_pct == [0.0, 10.0, 20.0, 30.0] and curve.gpu_power_w == []


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=800), st.integers(0, 2**31))
def test_a_record_is_bounded_and_keeps_its_mean(pauses: list[float], seed: int) -> None:
    rng, now = random.Random(seed), BEGIN
    record, lowest, highest = BoundedRecord(BEGIN), 100.0, 0.0
    for pause in pauses:
        value = rng.uniform(0, 100)
        lowest, highest = min(lowest, value), max(highest, value)
        record.add({"gpu_util_pct": value}, now)
        now += pause
    record.add({}, now)
    curve = record.curve()
    assert len(curve.gpu_util_pct) <= MOST
    covered = record.size * curve.step_s
    assert covered <= now - BEGIN < covered + curve.step_s or record.size <= 1
    reported = [each for each in curve.gpu_util_pct if each is not None]
    assert all(lowest - 0.1 <= each <= highest + 0.1 for each in reported)


def test_a_record_of_weeks_is_bounded_by_its_points() -> None:
    record = BoundedRecord(BEGIN)
    record.add({"mem_bytes": 1.0}, BEGIN)
    record.add({"mem_bytes": 3.0}, BEGIN + 7 * 86_400)
    record.add({"mem_bytes": 3.0}, BEGIN + 14 * 86_400)
    curve = record.curve()
    assert MOST // 2 <= record.size <= MOST
    assert curve.mem_bytes[0] == 1 and None in curve.mem_bytes


def test_a_value_measured_later_is_unknown_before() -> None:
    record = BoundedRecord(BEGIN)
    record.add({"cpu_pct": 50.0}, BEGIN)
    record.add({"cpu_pct": 50.0, "mem_bytes": 7.0}, BEGIN + 1)
    record.add({}, BEGIN + 2)
    assert record.curve().mem_bytes == [None, 7]


def test_a_clock_that_goes_back_is_handled() -> None:
    record, rings = BoundedRecord(BEGIN), Rings()
    for now in (BEGIN + 5, BEGIN - 3600, BEGIN + 6):
        record.add({"cpu_pct": 1.0}, now)
        rings.add({"cpu_pct": 1.0}, now)
    assert len(record.curve().cpu_pct) == 6
    assert all(rings.curve(step).cpu_pct for step, _ in RINGS[:1])


def test_rings_keep_the_latest_points_of_each_resolution() -> None:
    rings = Rings()
    for second in range(30_000):
        rings.add({"cpu_pct": float(second)}, BEGIN + second)
    for step_s, size in RINGS:
        curve = rings.curve(step_s)
        assert curve.step_s == step_s and len(curve.cpu_pct) == min(size, int(30_000 // step_s))
        end = curve.begin_unix + len(curve.cpu_pct) * step_s
        assert end <= BEGIN + 30_000 < end + 2 * step_s
        last = curve.cpu_pct[-1]
        assert last is not None and abs(last - (end - BEGIN - step_s / 2)) <= step_s
    assert rings.curve(7.0).step_s == 10.0 and rings.curve(3600.0).step_s == 60.0


def test_a_ring_keeps_gaps_and_late_values() -> None:
    rings = Rings()
    rings.add({"cpu_pct": 1.0}, 100.0)
    rings.add({"cpu_pct": 4.0, "mem_bytes": 9.0}, 103.0)
    rings.add({}, 104.0)
    curve = rings.curve(1.0)
    assert (curve.begin_unix, curve.cpu_pct) == (100.0, [1.0, None, None, 4.0])
    assert curve.mem_bytes == [None, None, None, 9]


def test_an_empty_curve_begins_at_zero() -> None:
    empty = Rings().curve(1.0)
    assert empty.begin_unix == 0.0 and not empty.cpu_pct


# ---- meters


def sample(util: int | None = 50, *, power: float | None = 200.0, **fields: object) -> wire.GpuSample:
    return wire.GpuSample(index=0, util_pct=util, power_w=power, **fields)  # type: ignore[arg-type]


def test_sums_add_the_readings_of_all_gpus_over_time() -> None:
    meter = UsageMeter(begin_unix=BEGIN)
    two = [sample(80, mem_used_bytes=10 * GIB), sample(4, mem_used_bytes=5 * GIB, power=100.0)]
    for second in range(1, 11):
        meter.add_reading(two, job_id=1, more={}, now=BEGIN + second)
    used = meter.usage()
    assert used is not None
    assert used.seconds == pytest.approx(20.0) and used.busy_s == pytest.approx(8.4)
    assert used.idle_s == pytest.approx(10.0), "one of the two GPUs was below 5 %"
    assert used.energy_j == pytest.approx(3000.0) and used.mem_peak_bytes == 15 * GIB


def test_unknown_values_do_not_count_as_zero() -> None:
    meter = UsageMeter(begin_unix=BEGIN)
    meter.add_reading([sample(90)], job_id=1, more={}, now=BEGIN + 1)
    meter.add_reading([sample(None, power=None)], job_id=1, more={}, now=BEGIN + 2)
    meter.add_reading([sample(90)], job_id=1, more={}, now=BEGIN + 3600)
    used = meter.usage()
    assert used is not None and used.seconds == pytest.approx(1 + LONGEST_S)
    assert used.busy_s / used.seconds == pytest.approx(0.9)


def test_only_the_share_of_a_shared_gpu_counts() -> None:
    own_agent = wire.GpuProcess(pid=1, mem_bytes=3 * GIB, job_id=7, util_pct=20)
    other = wire.GpuProcess(pid=2, mem_bytes=30 * GIB, job_id=8, util_pct=70)
    meter = UsageMeter(begin_unix=BEGIN, share_pct=25)
    meter.add_reading([sample(90, processes=[own_agent, other])], job_id=7, more={}, now=BEGIN + 1)
    used = meter.usage()
    assert used is not None
    assert used.busy_s == pytest.approx(0.2)
    assert (used.mem_peak_bytes, used.energy_j) == (3 * GIB, 50.0)


def test_a_meter_continues_from_the_values_of_an_earlier_agent(short_tmp: Path) -> None:
    meter, folder = UsageMeter(begin_unix=BEGIN), Folder(str(short_tmp))
    for second in range(1, 100):
        meter.add_reading([sample(60)], job_id=1, more={"cpu_pct": 10.0}, now=BEGIN + second)
    meter._written = time.monotonic() - 3600  # a long time ago
    meter.keep(folder)
    later = UsageMeter(begin_unix=BEGIN)
    later.restore(folder)
    assert later.usage() == meter.usage()
    assert later.curve() == meter.curve()
    for torn in ("", "{", "[]", '{"gpu": {}}', '{"record": 3}'):
        (short_tmp / FILE).write_text(torn)
        strange = UsageMeter(begin_unix=BEGIN)
        strange.restore(folder)
        assert strange.usage() is None


# ---- a real agent


def curves(agent: AgentProcess, **requested: object) -> wire.Curves:
    agent.link.send(wire.AskCurves(ask=3, **requested))  # type: ignore[arg-type]
    return agent.link.expect(wire.Curves)


@pytest.mark.lab
def test_a_launch_is_measured_while_it_runs_and_at_its_end(
    make_agent: MakeAgent, gpus: Gpus, short_tmp: Path
) -> None:
    card = f"gpu 0 uuid=GPU-0 util=40 power=100000 used={2 * GIB} mem={80 * GIB}"
    gpus.show(card)
    agent = make_agent(**gpus.environ)
    agent.start()
    agent.launch(1, f"while [ ! -e {short_tmp}/gate ]; do sleep 0.1; done", gpus=["GPU-0"])
    agent.link.report(1, "running")
    eventually(lambda: curves(agent, job_id=1).curves, what="the launch has a curve")
    reported = curves(agent, job_id=1)
    assert reported.gpu is not None and reported.gpu.mem_peak_bytes == 2 * GIB
    assert {each for each in reported.curves[0].gpu_util_pct if each is not None} == {40.0}
    (short_tmp / "gate").touch()
    report = agent.link.report(1, "exited")
    assert report.gpu is not None and report.curve is not None
    assert report.gpu.busy_s / report.gpu.seconds == pytest.approx(0.4) and report.gpu.idle_s == 0.0
    assert report.gpu.energy_j == pytest.approx(100.0 * report.gpu.seconds)
    assert len(report.curve.gpu_power_w) >= 3
    node = {curve.uuid: curve for curve in curves(agent).curves}
    assert set(node) == {"", "GPU-0"} and 40.0 in node["GPU-0"].gpu_util_pct
    assert node[""].mem_bytes and not node[""].gpu_util_pct
    assert curves(agent, job_id=99).curves == []


@pytest.mark.lab
def test_a_step_is_measured_while_it_runs_and_reports_its_curve_at_its_end(
    make_agent: MakeAgent, gpus: Gpus, short_tmp: Path
) -> None:
    gpus.show(f"gpu 0 uuid=GPU-0 util=40 mem={80 * GIB}", f"gpu 1 uuid=GPU-1 util=70 mem={80 * GIB}")
    agent = make_agent(**gpus.environ)
    agent.start()
    agent.launch(1, "sleep 1000", gpus=["GPU-0", "GPU-1"])
    agent.link.report(1, "running")
    script = f"while [ ! -e {short_tmp}/gate ]; do sleep 0.1; done"
    agent.link.send(
        stepwire.StepLaunch(
            job_id=1,
            restarts=0,
            step=2,
            env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "GPU-1"},
            cwd="/",
            argv=["sh", "-c", script],
            tasks=[stepwire.StepTask(rank=0)],
        )
    )
    eventually(lambda: curves(agent, job_id=1, step=2).curves, what="the step has a curve")
    assert curves(agent, job_id=1, step=3).curves == []
    (short_tmp / "gate").touch()
    report = agent.link.expect(StepReport, lambda found: found.phase == "exited")
    assert report.curve is not None
    assert {each for each in report.curve.gpu_util_pct if each is not None} == {70.0}


def test_a_zombie_has_the_cpu_time_of_its_waited_children() -> None:
    """For a launch without a cgroup, this is the only record of its CPU time."""
    ended = subprocess.Popen(["sh", "-c", "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) & wait"])
    try:
        eventually(lambda: job_processes.stat_fields(ended.pid)[0] == "Z", what="the process has ended")
        assert job_processes.cpu_time(ended.pid).total_s > 0.05
    finally:
        ended.wait()
    assert job_processes.cpu_time(ended.pid) == CpuTime()


def test_the_cpu_time_of_ended_processes_is_reported(agent: AgentProcess) -> None:
    report = agent.run(1, "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) & wait")
    assert 0.05 < report.cpu_seconds < 60.0


IN_THE_KERNEL = "dd if=/dev/zero of=/dev/null bs=1M count=6000 2>/dev/null"
IN_THE_PROGRAM = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done"


def test_system_cpu_time_is_reported_separately(agent: AgentProcess) -> None:
    for job, (command, is_kernels) in enumerate(((IN_THE_KERNEL, True), (IN_THE_PROGRAM, False)), 1):
        report = agent.run(job, command)
        assert report.cpu_seconds > 0.02
        assert (report.system_s > report.cpu_seconds / 2) is is_kernels, report


def test_system_cpu_time_of_a_step_is_reported_separately(agent: AgentProcess) -> None:
    agent.launch(1, "sleep 1000")
    agent.link.report(1, "running")
    for step, (command, is_kernels) in enumerate(((IN_THE_KERNEL, True), (IN_THE_PROGRAM, False))):
        agent.begin_step(1, step, command)
        report = agent.step_end(1, step)
        assert report.cpu_seconds > 0.02
        assert (report.system_s > report.cpu_seconds / 2) is is_kernels, report


MEASURED = """
dd if=/dev/zero of=/dev/null bs=1M count=$((10 * (SLURM_PROCID + 1))) 2>/dev/null
exec @PYTHON@ -c '
import os, time
held = bytearray((50 + 100 * int(os.environ["SLURM_PROCID"])) << 20)
while not os.path.exists("@GATE@"): time.sleep(0.05)
'"""


def test_tasks_and_the_job_without_its_steps_are_measured_separately(
    agent: AgentProcess, short_tmp: Path
) -> None:
    gate, over = short_tmp / "gate", short_tmp / "over"
    agent.launch(1, f"while [ ! -e {over} ]; do sleep 0.05; done")
    agent.link.report(1, "running")
    command = MEASURED.replace("@PYTHON@", sys.executable).replace("@GATE@", str(gate))
    agent.begin_step(1, 0, command, tasks=2)
    eventually(
        lambda: curves(agent, job_id=1, step=0).peak_mem_bytes > 200 * MIB,
        timeout_s=90.0,
        what="both jobs are measured",
    )
    gate.touch()
    report = {each.name: each for each in agent.step_end(1, 0).spreads}
    mem, read, written = report["mem_bytes"], report["read_bytes"], report["written_bytes"]
    assert (mem.least_rank, mem.most_rank, read.least_rank, read.most_rank) == (0, 1, 0, 1)
    assert 50 * MIB < mem.least < 150 * MIB < mem.most < 200 * MIB
    assert 10 * MIB < read.least < 20 * MIB < read.most < 30 * MIB
    assert read.total == read.least + read.most and 30 * MIB <= written.total < 35 * MIB
    over.touch()
    ended = agent.link.report(1, "exited")
    assert ended.own is not None and ended.peak_mem_bytes > 200 * MIB
    assert 0 < ended.own.peak_mem_bytes < 50 * MIB and ended.own.cpu_seconds < ended.cpu_seconds


def test_the_memory_of_a_very_short_step_is_measured(agent: AgentProcess) -> None:
    """The agent takes no sample of these short processes; the kernel reports the peak of the largest one."""
    agent.launch(1, "sleep 1000")
    agent.link.report(1, "running")
    command = "exec python3 -c 'import os; bytearray((200 + 100 * int(os.environ[\"SLURM_PROCID\"])) << 20)'"
    agent.begin_step(1, 0, command, tasks=2)
    report = agent.step_end(1, 0)
    (mem,) = (each for each in report.spreads if each.name == "mem_bytes")
    assert 200 * MIB < mem.least < 300 * MIB < mem.most < 400 * MIB
    assert (mem.least_rank, mem.most_rank) == (0, 1) and report.peak_mem_bytes >= mem.most


def test_a_launch_without_steps_has_no_separate_own_usage(agent: AgentProcess) -> None:
    assert agent.run(1, "true").own is None


@pytest.mark.parametrize(
    ("age_s", "pause"),
    [(0.0, MIN_PAUSE_S), (4.0, 2.0), (12.0, 6.0), (100.0, MAX_PAUSE_S), (-5.0, MIN_PAUSE_S)],
)
def test_new_processes_are_sampled_more_often(age_s: float, pause: float) -> None:
    assert pause_s([BEGIN - 1000.0, BEGIN - age_s], BEGIN) == pause


@pytest.mark.parametrize(
    "text",
    [
        *("", "0m0.00s 0m0.00s", "a\nb c", "0m1s 0m1s\n0m1s", "0m1s 0m1s\n1s 2s 3s"),
        *("\n0mnans 0m1s", "\n0minfs 0m1s", "\n0m1e999s 0m1s", "\n0m1s 0m-1s", "\n1e300m0s 0m1s"),
    ],
)
def test_invalid_output_of_times_counts_as_zero(text: str) -> None:
    assert from_times(text) == CpuTime()


@pytest.mark.parametrize("digits", [21, 400, 5000])
def test_a_manipulated_usage_file_cannot_spoil_the_report(tmp_path: Path, digits: int) -> None:
    """The user owns the file. A message with an invalid number would end the node's connection."""
    launch = stepwire.StepLaunch(job_id=1, restarts=0, step=0, env={}, cwd="/")
    user = {"uid": os.getuid(), "gid": os.getgid()}
    task = make_folder(str(tmp_path / "task"), stepwire.StepTask(rank=0), request=launch, **user)
    text = f"0m0s 0m0s\n0mnans 0m1s\n \nrchar: {'9' * digits}\nwchar: 7\n"
    (tmp_path / "task" / "times").write_text(text)
    (reported,) = per_task_minmax({0: task})
    assert (reported.name, reported.total) == ("written_bytes", 7.0)


def test_a_process_with_a_forged_step_id_counts_only_for_the_launch() -> None:
    key, tag = (7, 0), job_processes.JobTag(f"7.0@{os.getpid()}", "secret", os.getuid())
    for step in ("x", "-1", "9" * 5000):
        variables = {**tag.variables(), "WARPDECK_STEP": step, "SLURM_PROCID": "0"}
        with subprocess.Popen(["sleep", "1000"], env={**os.environ, **variables}) as process:
            try:
                eventually(
                    lambda: process.pid in job_processes.pids_by_job_tag().get(tag, ()), what="the job runs"
                )
                assert sample_processes({tag: (key, True)}).keys() == {
                    (key, "", ""),
                    (key, OUTSIDE_STEPS, ""),
                }
            finally:
                process.kill()


def test_output_of_times_is_parsed_in_every_locale() -> None:
    assert from_times("0m9.00s 0m9.00s\n1m1.50s 0m0,25s") == CpuTime(61.75, 0.25)


def test_the_memory_of_running_processes_is_measured(agent: AgentProcess, short_tmp: Path) -> None:
    code = "import signal; x = bytearray(150 << 20); signal.pause()"
    agent.launch(1, f"exec {sys.executable} -c '{code}'")
    agent.link.report(1, "running")
    eventually(
        lambda: curves(agent, job_id=1).peak_mem_bytes > 150 << 20,
        timeout_s=90.0,
        what="the memory was measured",
    )


def test_the_meter_knows_since_when_all_gpus_are_idle() -> None:
    meter = UsageMeter(begin_unix=BEGIN)
    begun = meter.gpus_used_at
    assert time.time() - begun < 60, "the time before the agent's start counts as use"

    def read(now: float, *utils: int | None) -> float:
        gpus = [
            wire.GpuSample(index=index, util_pct=util, mem_used_bytes=0, power_w=0.0)
            for index, util in enumerate(utils)
        ]
        meter.add_reading(gpus, job_id=1, more={}, now=now)
        return meter.gpus_used_at

    assert read(BEGIN + 1, 5, 0) == BEGIN + 1
    assert read(BEGIN + 2, 4, 0) == BEGIN + 1
    assert read(BEGIN + 3, 0, None) == BEGIN + 3, "unknown use counts as use"
    assert read(BEGIN + 9, 0, 0) == BEGIN + 3
