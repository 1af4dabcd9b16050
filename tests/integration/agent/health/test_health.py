"""Health checks of an agent: GPU faults reported by the driver, disks, mounts, and the site's program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.agent.conftest import Gpus, MakeAgent
from tests.lab.hangs import hanging_mount
from tests.support.agent import AgentProcess
from tests.support.processes import command_lines
from tests.support.waiting import WAIT_S, eventually

from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.gpu.gpu_health import Card, GpuState
from warpdeck_agent.health.disks import Disks, ask_disk
from warpdeck_agent.health.gpu_checks import COOL_S, HELD_S, HOT_S, HeatTracker, UnexplainedMemory, judge_gpus
from warpdeck_agent.health.gpu_faults import KEPT, FaultLog
from warpdeck_agent.health.health_program import HealthProgram
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire import messages as wire

MIB, GIB = 2**20, 2**30
ANSWER_S = 1.5
"""A working disk answers within this time, even on a busy machine."""
CARD = Card(3, "GPU-3", None)


# ---- on a node


def check_health(agent: AgentProcess, number: int = 1, **rules: object) -> wire.Health:
    """Run every check again and return the results."""
    agent.link.send(wire.AskHealth(at_unix=77.5, ask=number, **rules))  # type: ignore[arg-type]
    return agent.link.expect(wire.Health, lambda message: message.ask == number)


def states(message: wire.Health) -> dict[tuple[str, int], str]:
    """Return the state of each check by (check, GPU)."""
    return {(check.name, check.gpu): check.state for check in message.checks}


def start(make_agent: MakeAgent, gpus: Gpus, *lines: str, often: bool = True) -> AgentProcess:
    gpus.show(*lines)
    agent = make_agent(**gpus.environ)
    agent.serve()
    agent.connect(sample_interval_s=0.1 if often else 3600.0)
    return agent


@pytest.mark.lab
def test_every_check_of_a_healthy_node_succeeds(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0", "gpu 1")
    answer = check_health(agent)
    assert answer.asked_at_unix == 77.5 and answer.faults == []
    found = states(answer)
    assert set(found.values()) == {"ok"}
    assert {name for name, _ in found} >= {"disk", "gpu_lost", "row_remap", "thermal", "ecc"}


@pytest.mark.lab
def test_an_xid_error_is_reported_once_and_survives_the_agent(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0", "gpu 1 uuid=GPU-b")
    agent.link.expect(wire.Sample)
    gpus.show("gpu 0", "gpu 1 uuid=GPU-b", "event 1 1 8 79", "event 2 1 8 79")
    health = agent.link.expect(wire.Health, lambda message: bool(message.faults)).faults
    assert [(fault.check, fault.xid, fault.gpu, fault.uuid) for fault in health] == [("xid", 79, 1, "GPU-b")]
    assert health[0].message == "Xid 79: the GPU has fallen off the bus"
    agent.kill()
    agent.serve()
    agent.connect()
    assert check_health(agent).faults == health


@pytest.mark.lab
@pytest.mark.parametrize(
    ("fault", "check", "text"),
    [
        ("rem_f=1", "row_remap", "could not be remapped"),
        ("lost=1", "gpu_lost", "fallen off the bus"),
    ],
)
def test_a_failing_gpu_does_not_affect_the_others(
    make_agent: MakeAgent, gpus: Gpus, fault: str, check: str, text: str
) -> None:
    agent = start(make_agent, gpus, "gpu 0", "gpu 1")
    gpus.show("gpu 0", f"gpu 1 {fault}")
    health = agent.link.expect(wire.Health, lambda message: states(message).get((check, 1)) == "fail")
    assert [each.gpu for each in health.checks if each.state == "fail"] == [1]
    assert text in next(each.message for each in health.checks if each.state == "fail")


@pytest.mark.lab
def test_each_new_count_of_uncorrectable_memory_errors_is_a_fault(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0 ecc_u=1 ecc_c=500")
    first = agent.link.expect(wire.Health, lambda message: len(message.faults) == 1).faults[0]
    assert (first.check, first.message) == ("ecc", "1 uncorrectable ECC error")
    gpus.show("gpu 0 ecc_u=3 ecc_c=900")
    second = agent.link.expect(wire.Health, lambda message: len(message.faults) == 2).faults[1]
    assert second.message == "2 uncorrectable ECC errors" and second.number > first.number


@pytest.mark.lab
def test_a_pending_row_remap_is_a_warning(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0 rem_p=1", often=False)
    assert states(check_health(agent))["row_remap", 0] == "warn"


@pytest.mark.lab
def test_unexplained_gpu_memory_is_reported_unless_a_job_has_the_gpu(
    make_agent: MakeAgent, gpus: Gpus
) -> None:
    """The driver may be unable to name the processes of a job in a container."""
    cards = [
        f"gpu {index} uuid=GPU-{index} used={used}" for index, used in ((0, 30 * GIB), (1, GIB), (2, 9 * GIB))
    ]
    agent = start(make_agent, gpus, *cards)
    agent.launch(1, "sleep 1000", gpus=["GPU-2"])
    agent.link.report(1, "running")
    sample = agent.link.expect(wire.Sample, lambda message: bool(message.gpus[2].unexplained_bytes))
    assert [gpu.unexplained_bytes // GIB for gpu in sample.gpus] == [30, 0, 9]
    found = [check for check in check_health(agent).checks if check.name == "gpu_memory"]
    assert [(check.state, check.gpu) for check in found] == [("warn", 0)]
    assert found[0].message == "30.0 GiB of GPU memory are in use, but no process is visible"
    gpus.show(*cards, f"proc 0 pid={os.getpid()} mem={30 * GIB}")
    agent.link.expect(wire.Health, lambda message: states(message).get(("gpu_memory", -1)) == "ok")


@pytest.mark.lab
def test_a_hanging_driver_does_not_delay_the_answer(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0")
    check_health(agent)
    gpus.show("gpu 0 delay_us=60000000")
    agent.link.expect(wire.Sample, lambda message: "does not answer" in message.gpus[0].error)
    assert states(check_health(agent, 2))["disk", -1] == "ok"


def test_a_job_gets_a_line_in_its_error_output(agent: AgentProcess, short_tmp: Path) -> None:
    agent.launch(1, "echo mine; sleep 1000", stdout=str(short_tmp / "o"), stderr=str(short_tmp / "e"))
    agent.link.report(1, "running")
    eventually(lambda: (short_tmp / "o").exists() and (short_tmp / "o").read_text(), what="the job runs")
    agent.link.send(wire.Notice(job_id=1, restarts=0, text="GPU 3: $(touch /tmp/x)\nXid 79"))
    eventually(lambda: (short_tmp / "e").read_text(), what="the line is in the output")
    assert (short_tmp / "e").read_text() == "warpdeck: GPU 3: $(touch /tmp/x)?Xid 79\n"
    assert (short_tmp / "o").read_text() == "mine\n"


def test_a_terminal_gets_the_line_too(agent: AgentProcess) -> None:
    agent.launch(1, argv=["sh", "-c", "echo ready; sleep 1000"], role="tasks", pty=True)
    agent.link.report(1, "running")
    agent.link.send(wire.OpenPty(stream=5, job_id=1, restarts=0, rows=24, cols=80))
    agent.link.output(5, b"ready")
    agent.link.send(wire.Notice(job_id=1, restarts=0, text="GPU 3: Xid 79"))
    agent.link.output(5, b"warpdeck: GPU 3: Xid 79")


# ---- the site's program


def script(folder: Path, text: str) -> str:
    path = folder / "check"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        ("echo all is well; exit 0", "ok", "all is well"),
        ("echo; echo 'no /scratch  '; echo more; exit 1", "fail", "no /scratch"),
        ("echo on the error line >&2; exit 3", "fail", "on the error line"),
        ("exit 4", "fail", "(exit 4)"),
        ("kill -9 $$", "fail", "(signal 9)"),
        ("printf 'a\\033[31mb\\n'; exit 1", "fail", "a?[31mb"),
        ("sleep 1000 & echo bad; exit 1", "fail", "bad"),
        ("head -c 3000000 /dev/zero | tr '\\0' x; exit 1", "fail", "x" * 300),
    ],
)
def test_the_exit_code_of_the_health_program_decides(
    short_tmp: Path, text: str, state: str, message: str
) -> None:
    found = HealthProgram().run(script(short_tmp, text), timeout_s=30.0)
    assert (found.name, found.state) == ("program", state) and message in found.message


def test_a_hanging_program_is_killed_with_its_children(short_tmp: Path) -> None:
    """This includes processes that have left the program's process group."""
    # no other process uses these arguments
    one, two, three, four = (f"{1000 + number}.{os.getpid()}" for number in range(4))
    text = f"echo $$ >{short_tmp}/pid; sleep {one} & setsid sh -c 'sleep {two} & exec sleep {three}' & sleep {four}"
    found = HealthProgram().run(script(short_tmp, text), timeout_s=2.0)
    assert found.state == "fail" and "did not finish within 2 s" in found.message
    pid = int((short_tmp / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    message_text = [f"sleep\0{number}\0".encode() for number in (one, two, three, four)]
    eventually(
        lambda: not [line for line in commands() if line in message_text], what="no process of it runs"
    )


def commands() -> list[bytes]:
    return [text for _, text in command_lines()]


@pytest.mark.lab
def test_a_program_that_survives_sigkill_is_not_started_twice(short_tmp: Path) -> None:
    runs, program = short_tmp / "runs", HealthProgram()
    with hanging_mount(short_tmp / "hangs") as mount:
        path = script(short_tmp, f"echo one >>{runs}; exec {' '.join(mount.inside)} stat -f {mount.path}")
        for text in ("did not finish within 2 s", "was killed but has not exited"):
            assert text in program.run(path, timeout_s=2.0).message
        assert runs.read_text() == "one\n"
    eventually(
        lambda: "nsenter" in program.run(path, timeout_s=30.0).message, what="the job is started again"
    )


def test_a_program_that_cannot_run_drains_nothing(short_tmp: Path) -> None:
    assert HealthProgram().run(str(short_tmp / "none"), timeout_s=5.0).state == "warn"
    assert HealthProgram().run("/etc/passwd", timeout_s=5.0).state == "warn"


def test_the_program_runs_at_the_interval_of_the_site(make_agent: MakeAgent, short_tmp: Path) -> None:
    bad = short_tmp / "bad"
    path = script(short_tmp, f"[ ! -e {bad} ] || {{ echo scratch is gone; exit 1; }}")
    agent = make_agent()
    agent.start()
    agent.link.send(wire.AskHealth(at_unix=1.0, program=path, interval_s=1.0))
    agent.link.expect(wire.Health, lambda health: states(health).get(("program", -1)) == "ok")
    bad.touch()
    health = agent.link.expect(wire.Health, lambda message: states(message).get(("program", -1)) == "fail")
    assert health.asked_at_unix == 0.0, "no check was requested"
    bad.unlink()
    agent.link.expect(wire.Health, lambda message: states(message).get(("program", -1)) == "ok")


# ---- disks and mounts


def test_a_full_disk_recovers_only_with_a_margin(short_tmp: Path) -> None:
    free = 3 * MIB

    def probe(path: str) -> os.statvfs_result:
        blocks = free // 4096
        return os.statvfs_result((4096, 4096, 25600, blocks, blocks, 100, 100, 100, 0, 255))

    disks = Disks(("/data",), probe=probe, mounts=lambda: [])
    check = lambda: asyncio.run(disks.check(256 * MIB))[0]  # noqa: E731
    assert check().state == "ok", "3 of 100 MiB are more than a hundredth"
    free = MIB // 2
    assert (check().state, check().message) == ("fail", "/data is full: 0 MiB are free")
    free = MIB + MIB // 2
    assert check().state == "fail"
    free = 3 * MIB
    assert check().state == "ok"


def test_a_disk_without_free_inodes_is_full() -> None:
    probe = lambda path: os.statvfs_result((4096, 4096, 25600, 9000, 9000, 100, 0, 0, 0, 255))  # noqa: E731
    found = asyncio.run(Disks(("/data",), probe=probe, mounts=lambda: []).check(MIB))
    assert [check.message for check in found] == [
        "cannot create more files in /data: its file system has no free inodes"
    ]


async def test_a_hanging_mount_fails_alone_and_recovers(short_tmp: Path) -> None:
    fifo = short_tmp / "fifo"
    os.mkfifo(fifo)

    def probe(path: str) -> object:
        """Stand in for a mount with a dead server: opening a pipe without a writer blocks in the same way."""
        if path == "/nfs":
            with fifo.open("rb"):
                return os.statvfs("/")
        return os.statvfs(path)

    disks = Disks(("/",), probe=probe, mounts=lambda: ["/nfs", "/tmp"], answer_s=ANSWER_S)
    for _ in range(2):  # the blocked thread is not asked a second time
        found = await disks.check(1)
        assert [(check.name, check.state) for check in found] == [("disk", "ok"), ("mount", "fail")]
        assert found[1].message == "/nfs does not answer"
    server = os.open(fifo, os.O_RDWR)  # the mount answers from now on
    try:
        async with asyncio.timeout(WAIT_S):
            while [check.state for check in await disks.check(1)] != ["ok", "ok"]:
                continue
    finally:
        os.close(server)


LOOKS = """
import asyncio, signal, sys
from warpdeck_agent.health.disks import Disks
from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.linux.refusals import LaunchError
print([check.message for check in asyncio.run(Disks(("/",), answer_s=@ANSWER_S@).check(1))])
try:
    asyncio.run(FolderChecks(answer_s=@ANSWER_S@).is_there(sys.argv[1] + "/below", uid=0))
except LaunchError as error:
    print(error, flush=True)
signal.pause()
"""


@pytest.mark.lab
def test_a_hanging_mount_does_not_prevent_the_end_of_the_agent(short_tmp: Path) -> None:
    """A process that blocks on the mount cannot be killed.

    If the agent itself accessed the mount, it would keep its lock after a kill.
    """
    with hanging_mount(short_tmp / "hangs") as mount:
        looks = LOOKS.replace("@ANSWER_S@", str(ANSWER_S))
        argv = [*mount.inside, sys.executable, "-c", looks, str(mount.path)]
        looking = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert looking.stdout is not None
        with looking.stdout:
            assert looking.stdout.readline().strip() == str(
                ["free space in /", f"{mount.path} does not answer"]
            )
            message = f"the file server of the folder {mount.path}/below does not answer on this node"
            assert looking.stdout.readline().strip() == message
        looking.kill()
        assert looking.wait(WAIT_S) == -signal.SIGKILL


@pytest.mark.lab
def test_a_launch_with_a_hanging_folder_delays_no_other(make_agent: MakeAgent, short_tmp: Path) -> None:
    with hanging_mount(short_tmp / "hangs") as mount:
        agent = make_agent()
        agent.program = [*mount.inside, *agent.program]
        agent.start()
        agent.launch(1, "true", cwd=f"{mount.path}/below")
        assert agent.run(2, "echo well").exit_code == 0
        refused = agent.link.expect(wire.LaunchFailed)
        assert (refused.job_id, refused.again, refused.check) == (1, True, "mount"), "the node is drained"
        agent.kill()
        agent.start()
    agent.launch(3, "true", cwd=f"{mount.path}/below")
    assert agent.link.report(3, "exited").exit_code == 0, "the job gets another folder if its own is missing"


@pytest.mark.lab
def test_a_hanging_submit_folder_delays_no_launch_and_is_reported(
    make_agent: MakeAgent, short_tmp: Path
) -> None:
    with hanging_mount(short_tmp / "hangs") as mount:
        agent = make_agent()
        agent.program = [*mount.inside, *agent.program]
        agent.start()
        for number in (1, 2):
            agent.link.send(wire.ProbePath(probe=number, path=str(mount.path), name=f"probe{number}", uid=0))
        assert agent.run(1, "echo well").exit_code == 0
        probes = [agent.link.expect(wire.PathProbed) for _ in (1, 2)]
        assert sorted((each.probe, each.found, each.hangs) for each in probes) == [
            (1, False, True),
            (2, False, True),
        ]
    (short_tmp / "entry").symlink_to("nowhere")
    for name, found in (("entry", True), ("other", False)):
        agent.link.send(wire.ProbePath(probe=3, path=str(short_tmp), name=name, uid=0))
        assert agent.link.expect(wire.PathProbed) == wire.PathProbed(probe=3, found=found)


async def test_a_missing_folder_is_looked_up_again(short_tmp: Path) -> None:
    folders, path = FolderChecks(), short_tmp / "late"
    assert not await folders.is_there(str(path), uid=os.getuid())
    path.mkdir()
    assert await folders.is_there(str(path), uid=os.getuid())


@pytest.mark.lab
def test_disk_usage_equals_that_of_the_kernel(short_tmp: Path) -> None:
    message, known = ask_disk("/proc"), os.statvfs("/proc")
    assert (message.f_bsize, message.f_frsize, message.f_blocks) == (
        known.f_bsize,
        known.f_frsize,
        known.f_blocks,
    )
    with pytest.raises(FileNotFoundError):
        ask_disk(str(short_tmp / "none"))


async def test_a_stale_mount_is_reported_and_a_private_one_is_not() -> None:
    def probe(path: str) -> object:
        if path == "/stale":
            raise OSError(116, "Stale file handle")
        if path == "/private":
            raise PermissionError(13, "Permission denied")
        return os.statvfs("/")

    found = await Disks(("/",), probe=probe, mounts=lambda: ["/stale", "/private"]).check(1)
    assert [(check.name, check.message) for check in found if check.state == "fail"] == [
        ("mount", "/stale: Stale file handle")
    ]


# ---- faults and heat


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_fault_numbers_ascend_even_if_the_folder_was_lost(short_tmp: Path, clock: Clock) -> None:
    first = FaultLog(Folder(str(short_tmp)), clock)
    assert first.add_xid(CARD, 79) and not first.add_xid(CARD, 79), (
        "an equal fault within a minute is not added"
    )
    assert first.add_xid(CARD, 48)
    (short_tmp / "faults.json").unlink()
    clock.now += 5
    restarted = FaultLog(Folder(str(short_tmp)), clock)
    assert restarted.all() == [] and restarted.add_xid(CARD, 79)
    assert restarted.all()[0].number > first.all()[-1].number


def test_only_the_latest_faults_are_kept(short_tmp: Path, clock: Clock) -> None:
    faults = FaultLog(Folder(str(short_tmp)), clock)
    for _ in range(KEPT + 5):
        clock.now += 100
        assert faults.add_xid(CARD, 79)
    assert len(faults.all()) == KEPT == len(FaultLog(Folder(str(short_tmp))).all())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"faults": [{"x": 1}]}'])
def test_an_incomplete_fault_file_is_ignored(short_tmp: Path, text: str) -> None:
    (short_tmp / "faults.json").write_text(text)
    assert FaultLog(Folder(str(short_tmp))).all() == []


def test_errors_after_a_counter_reset_are_new(short_tmp: Path, clock: Clock) -> None:
    faults = FaultLog(Folder(str(short_tmp)), clock)
    assert faults.count_ecc(CARD, 5) and not faults.count_ecc(CARD, 5)
    assert not faults.count_ecc(CARD, 0), "the driver was loaded again"
    later = FaultLog(Folder(str(short_tmp)), clock)
    assert later.count_ecc(CARD, 2)
    assert [fault.message for fault in later.all()] == [
        "5 uncorrectable ECC errors",
        "2 uncorrectable ECC errors",
    ]


def test_overheating_fails_after_a_while_and_recovers_later() -> None:
    heat = HeatTracker()
    hot: Callable[[float, bool], bool] = lambda now, throttled: heat.is_hot("a", throttled, now=now)  # noqa: E731
    assert not hot(0.0, True) and not hot(HOT_S - 1, True)
    assert not hot(HOT_S, False) and not hot(HOT_S + 1, True), "a pause restarts the interval"
    assert hot(2 * HOT_S + 1, True)
    assert hot(2 * HOT_S + 2, False) and hot(2 * HOT_S + COOL_S, False)
    assert not hot(2 * HOT_S + COOL_S + 1, False)


def test_unexplained_memory_fails_after_a_while_and_recovers_when_freed() -> None:
    cards = UnexplainedMemory()
    held = GpuState(CARD, unexplained_bytes=3 * GIB)
    verdicts = [cards.check(held, now=now) for now in (0.0, HELD_S - 1, HELD_S)]
    assert [check.state for check in verdicts if check] == ["warn", "warn", "fail"]
    assert cards.check(GpuState(CARD), now=HELD_S + 1) is None
    restarted = cards.check(held, now=HELD_S + 2)
    assert restarted is not None and restarted.state == "warn"


def test_a_throttled_gpu_does_not_affect_the_others() -> None:
    heat = HeatTracker()
    check = [GpuState(Card(0, "a", None), throttled=False), GpuState(CARD, throttled=True)]
    judge_gpus(check, heat, UnexplainedMemory(), now=0.0)
    found = judge_gpus(check, heat, UnexplainedMemory(), now=HOT_S)
    assert [(check.name, check.gpu) for check in found if check.state == "fail"] == [("thermal", 3)]
