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


def asked(agent: AgentProcess, number: int = 1, **rules: object) -> wire.Health:
    """Run every check again and return the results."""
    agent.link.send(wire.AskHealth(at_unix=77.5, ask=number, **rules))  # type: ignore[arg-type]
    return agent.link.expect(wire.Health, lambda said: said.ask == number)


def states(said: wire.Health) -> dict[tuple[str, int], str]:
    """Return the state of each check by (check, GPU)."""
    return {(check.name, check.gpu): check.state for check in said.checks}


def start(make_agent: MakeAgent, gpus: Gpus, *lines: str, often: bool = True) -> AgentProcess:
    gpus.show(*lines)
    agent = make_agent(**gpus.environ)
    agent.serve()
    agent.connect(sample_interval_s=0.1 if often else 3600.0)
    return agent


@pytest.mark.lab
def test_a_healthy_node_says_so_of_every_check(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0", "gpu 1")
    said = asked(agent)
    assert said.asked_at_unix == 77.5 and said.faults == []
    found = states(said)
    assert set(found.values()) == {"ok"}
    assert {name for name, _ in found} >= {"disk", "gpu_lost", "row_remap", "thermal", "ecc"}


@pytest.mark.lab
def test_an_xid_is_told_once_and_outlives_the_agent(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0", "gpu 1 uuid=GPU-b")
    agent.link.expect(wire.Sample)
    gpus.show("gpu 0", "gpu 1 uuid=GPU-b", "event 1 1 8 79", "event 2 1 8 79")
    told = agent.link.expect(wire.Health, lambda said: bool(said.faults)).faults
    assert [(fault.check, fault.xid, fault.gpu, fault.uuid) for fault in told] == [("xid", 79, 1, "GPU-b")]
    assert told[0].message == "Xid 79: the GPU has fallen off the bus"
    agent.kill()
    agent.serve()
    agent.connect()
    assert asked(agent).faults == told


@pytest.mark.lab
@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("rem_f=1", "row_remap", "could not be remapped"),
        ("lost=1", "gpu_lost", "fallen off the bus"),
    ],
)
def test_a_card_that_fails_is_told_and_the_others_are_well(
    make_agent: MakeAgent, gpus: Gpus, fault: str, check: str, words: str
) -> None:
    agent = start(make_agent, gpus, "gpu 0", "gpu 1")
    gpus.show("gpu 0", f"gpu 1 {fault}")
    said = agent.link.expect(wire.Health, lambda told: states(told).get((check, 1)) == "fail")
    assert [each.gpu for each in said.checks if each.state == "fail"] == [1]
    assert words in next(each.message for each in said.checks if each.state == "fail")


@pytest.mark.lab
def test_uncorrectable_errors_of_memory_are_a_fault_for_each_new_count(
    make_agent: MakeAgent, gpus: Gpus
) -> None:
    agent = start(make_agent, gpus, "gpu 0 ecc_u=1 ecc_c=500")
    first = agent.link.expect(wire.Health, lambda said: len(said.faults) == 1).faults[0]
    assert (first.check, first.message) == ("ecc", "1 uncorrectable ECC error")
    gpus.show("gpu 0 ecc_u=3 ecc_c=900")
    second = agent.link.expect(wire.Health, lambda said: len(said.faults) == 2).faults[1]
    assert second.message == "2 uncorrectable ECC errors" and second.number > first.number


@pytest.mark.lab
def test_a_row_that_waits_for_a_reset_is_a_warning(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0 rem_p=1", often=False)
    assert states(asked(agent))["row_remap", 0] == "warn"


@pytest.mark.lab
def test_memory_that_no_process_holds_is_told_but_on_the_gpu_of_a_job(
    make_agent: MakeAgent, gpus: Gpus
) -> None:
    """The driver may be unable to name the processes of a job in a container."""
    cards = [
        f"gpu {index} uuid=GPU-{index} used={used}" for index, used in ((0, 30 * GIB), (1, GIB), (2, 9 * GIB))
    ]
    agent = start(make_agent, gpus, *cards)
    agent.launch(1, "sleep 1000", gpus=["GPU-2"])
    agent.link.report(1, "running")
    sample = agent.link.expect(wire.Sample, lambda said: bool(said.gpus[2].unexplained_bytes))
    assert [gpu.unexplained_bytes // GIB for gpu in sample.gpus] == [30, 0, 9]
    found = [check for check in asked(agent).checks if check.name == "gpu_memory"]
    assert [(check.state, check.gpu) for check in found] == [("warn", 0)]
    assert found[0].message == "30.0 GiB of GPU memory are in use, but no process is visible"
    gpus.show(*cards, f"proc 0 pid={os.getpid()} mem={30 * GIB}")
    agent.link.expect(wire.Health, lambda said: states(said).get(("gpu_memory", -1)) == "ok")


@pytest.mark.lab
def test_a_driver_that_hangs_keeps_no_answer_back(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent = start(make_agent, gpus, "gpu 0")
    asked(agent)
    gpus.show("gpu 0 delay_us=60000000")
    agent.link.expect(wire.Sample, lambda said: "does not answer" in said.gpus[0].error)
    assert states(asked(agent, 2))["disk", -1] == "ok"


def test_a_job_is_shown_a_line_where_its_errors_are(agent: AgentProcess, short_tmp: Path) -> None:
    agent.launch(1, "echo mine; sleep 1000", stdout=str(short_tmp / "o"), stderr=str(short_tmp / "e"))
    agent.link.report(1, "running")
    eventually(lambda: (short_tmp / "o").exists() and (short_tmp / "o").read_text(), what="it runs")
    agent.link.send(wire.Notice(job_id=1, restarts=0, text="GPU 3: $(touch /tmp/x)\nXid 79"))
    eventually(lambda: (short_tmp / "e").read_text(), what="the line is there")
    assert (short_tmp / "e").read_text() == "warpdeck: GPU 3: $(touch /tmp/x)?Xid 79\n"
    assert (short_tmp / "o").read_text() == "mine\n"


def test_a_terminal_shows_the_line_too(agent: AgentProcess) -> None:
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
def test_the_sites_program_decides(short_tmp: Path, text: str, state: str, message: str) -> None:
    found = HealthProgram().run(script(short_tmp, text), timeout_s=30.0)
    assert (found.name, found.state) == ("program", state) and message in found.message


def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(short_tmp: Path) -> None:
    """This includes processes that have left the program's process group."""
    # no other process uses these arguments
    one, two, three, four = (f"{1000 + number}.{os.getpid()}" for number in range(4))
    text = f"echo $$ >{short_tmp}/pid; sleep {one} & setsid sh -c 'sleep {two} & exec sleep {three}' & sleep {four}"
    found = HealthProgram().run(script(short_tmp, text), timeout_s=2.0)
    assert found.state == "fail" and "did not finish within 2 s" in found.message
    pid = int((short_tmp / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    words = [f"sleep\0{number}\0".encode() for number in (one, two, three, four)]
    eventually(lambda: not [line for line in commands() if line in words], what="nothing of it runs")


def commands() -> list[bytes]:
    return [words for _, words in command_lines()]


@pytest.mark.lab
def test_a_program_that_no_signal_ends_is_left_and_not_started_twice(short_tmp: Path) -> None:
    runs, program = short_tmp / "runs", HealthProgram()
    with hanging_mount(short_tmp / "hangs") as mount:
        path = script(short_tmp, f"echo one >>{runs}; exec {' '.join(mount.inside)} stat -f {mount.path}")
        for words in ("did not finish within 2 s", "was killed but has not exited"):
            assert words in program.run(path, timeout_s=2.0).message
        assert runs.read_text() == "one\n"
    eventually(lambda: "nsenter" in program.run(path, timeout_s=30.0).message, what="it is started again")


def test_a_program_that_cannot_be_run_drains_nothing(short_tmp: Path) -> None:
    assert HealthProgram().run(str(short_tmp / "none"), timeout_s=5.0).state == "warn"
    assert HealthProgram().run("/etc/passwd", timeout_s=5.0).state == "warn"


def test_the_program_is_run_as_often_as_the_site_says(make_agent: MakeAgent, short_tmp: Path) -> None:
    bad = short_tmp / "bad"
    path = script(short_tmp, f"[ ! -e {bad} ] || {{ echo scratch is gone; exit 1; }}")
    agent = make_agent()
    agent.start()
    agent.link.send(wire.AskHealth(at_unix=1.0, program=path, interval_s=1.0))
    agent.link.expect(wire.Health, lambda said: states(said).get(("program", -1)) == "ok")
    bad.touch()
    said = agent.link.expect(wire.Health, lambda told: states(told).get(("program", -1)) == "fail")
    assert said.asked_at_unix == 0.0, "nobody asked again"
    bad.unlink()
    agent.link.expect(wire.Health, lambda told: states(told).get(("program", -1)) == "ok")


# ---- disks and mounts


def test_a_full_disk_fails_and_has_room_again_only_with_some_to_spare(short_tmp: Path) -> None:
    free = 3 * MIB

    def probe(path: str) -> os.statvfs_result:
        blocks = free // 4096
        return os.statvfs_result((4096, 4096, 25600, blocks, blocks, 100, 100, 100, 0, 255))

    disks = Disks(("/data",), probe=probe, mounts=lambda: [])
    check = lambda: asyncio.run(disks.check(256 * MIB))[0]  # noqa: E731
    assert check().state == "ok", "3 of 100 MiB: more than a hundredth"
    free = MIB // 2
    assert (check().state, check().message) == ("fail", "/data is full: 0 MiB are free")
    free = MIB + MIB // 2
    assert check().state == "fail"
    free = 3 * MIB
    assert check().state == "ok"


def test_a_disk_without_room_for_another_file_is_full() -> None:
    probe = lambda path: os.statvfs_result((4096, 4096, 25600, 9000, 9000, 100, 0, 0, 0, 255))  # noqa: E731
    found = asyncio.run(Disks(("/data",), probe=probe, mounts=lambda: []).check(MIB))
    assert [check.message for check in found] == [
        "cannot create more files in /data: its file system has no free inodes"
    ]


async def test_a_mount_that_hangs_fails_alone_and_is_well_when_it_is_back(short_tmp: Path) -> None:
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
def test_a_mount_that_hangs_keeps_nobody_from_ending_who_looks_at_it(short_tmp: Path) -> None:
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
            words = f"the file server of the folder {mount.path}/below does not answer on this node"
            assert looking.stdout.readline().strip() == words
        looking.kill()
        assert looking.wait(WAIT_S) == -signal.SIGKILL


@pytest.mark.lab
def test_a_launch_whose_folder_hangs_holds_up_no_other(make_agent: MakeAgent, short_tmp: Path) -> None:
    with hanging_mount(short_tmp / "hangs") as mount:
        agent = make_agent()
        agent.program = [*mount.inside, *agent.program]
        agent.start()
        agent.launch(1, "true", cwd=f"{mount.path}/below")
        assert agent.run(2, "echo well").exit_code == 0
        refused = agent.link.expect(wire.LaunchFailed)
        assert (refused.job_id, refused.again, refused.check) == (1, True, "mount"), "the node drains for it"
        agent.kill()
        agent.start()
    agent.launch(3, "true", cwd=f"{mount.path}/below")
    assert agent.link.report(3, "exited").exit_code == 0, "in a folder of its own, where its own is not there"


@pytest.mark.lab
def test_a_submit_folder_that_hangs_holds_up_nobody_and_is_told(
    make_agent: MakeAgent, short_tmp: Path
) -> None:
    with hanging_mount(short_tmp / "hangs") as mount:
        agent = make_agent()
        agent.program = [*mount.inside, *agent.program]
        agent.start()
        for number in (1, 2):
            agent.link.send(wire.ProbePath(probe=number, path=str(mount.path), name=f"probe{number}", uid=0))
        assert agent.run(1, "echo well").exit_code == 0
        said = [agent.link.expect(wire.PathProbed) for _ in (1, 2)]
        assert [(each.probe, each.found, each.hangs) for each in said] == [(1, False, True), (2, False, True)]
    (short_tmp / "entry").symlink_to("nowhere")
    for name, found in (("entry", True), ("other", False)):
        agent.link.send(wire.ProbePath(probe=3, path=str(short_tmp), name=name, uid=0))
        assert agent.link.expect(wire.PathProbed) == wire.PathProbed(probe=3, found=found)


async def test_a_folder_that_was_not_there_is_looked_for_again(short_tmp: Path) -> None:
    folders, path = FolderChecks(), short_tmp / "late"
    assert not await folders.is_there(str(path), uid=os.getuid())
    path.mkdir()
    assert await folders.is_there(str(path), uid=os.getuid())


@pytest.mark.lab
def test_a_disk_is_asked_as_the_kernel_would_be(short_tmp: Path) -> None:
    said, known = ask_disk("/proc"), os.statvfs("/proc")
    assert (said.f_bsize, said.f_frsize, said.f_blocks) == (known.f_bsize, known.f_frsize, known.f_blocks)
    with pytest.raises(FileNotFoundError):
        ask_disk(str(short_tmp / "none"))


async def test_a_stale_mount_is_named_and_a_private_one_is_not() -> None:
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


def test_numbers_of_faults_ascend_even_where_the_folder_was_lost(short_tmp: Path, clock: Clock) -> None:
    first = FaultLog(Folder(str(short_tmp)), clock)
    assert first.add_xid(CARD, 79) and not first.add_xid(CARD, 79), "the same within a minute"
    assert first.add_xid(CARD, 48)
    (short_tmp / "faults.json").unlink()
    clock.now += 5
    anew = FaultLog(Folder(str(short_tmp)), clock)
    assert anew.all() == [] and anew.add_xid(CARD, 79)
    assert anew.all()[0].number > first.all()[-1].number


def test_only_the_last_faults_are_kept(short_tmp: Path, clock: Clock) -> None:
    faults = FaultLog(Folder(str(short_tmp)), clock)
    for _ in range(KEPT + 5):
        clock.now += 100
        assert faults.add_xid(CARD, 79)
    assert len(faults.all()) == KEPT == len(FaultLog(Folder(str(short_tmp))).all())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"faults": [{"x": 1}]}'])
def test_a_torn_file_of_faults_is_none(short_tmp: Path, text: str) -> None:
    (short_tmp / "faults.json").write_text(text)
    assert FaultLog(Folder(str(short_tmp))).all() == []


def test_errors_that_a_driver_counts_anew_are_new(short_tmp: Path, clock: Clock) -> None:
    faults = FaultLog(Folder(str(short_tmp)), clock)
    assert faults.count_ecc(CARD, 5) and not faults.count_ecc(CARD, 5)
    assert not faults.count_ecc(CARD, 0), "the driver was loaded anew"
    again = FaultLog(Folder(str(short_tmp)), clock)
    assert again.count_ecc(CARD, 2)
    assert [fault.message for fault in again.all()] == [
        "5 uncorrectable ECC errors",
        "2 uncorrectable ECC errors",
    ]


def test_heat_fails_after_a_while_and_is_over_after_a_longer_one() -> None:
    heat = HeatTracker()
    hot: Callable[[float, bool], bool] = lambda now, throttled: heat.is_hot("a", throttled, now=now)  # noqa: E731
    assert not hot(0.0, True) and not hot(HOT_S - 1, True)
    assert not hot(HOT_S, False) and not hot(HOT_S + 1, True), "a break begins anew"
    assert hot(2 * HOT_S + 1, True)
    assert hot(2 * HOT_S + 2, False) and hot(2 * HOT_S + COOL_S, False)
    assert not hot(2 * HOT_S + COOL_S + 1, False)


def test_memory_that_nobody_holds_fails_after_a_while_and_is_well_when_it_is_gone() -> None:
    cards = UnexplainedMemory()
    held = GpuState(CARD, unexplained_bytes=3 * GIB)
    verdicts = [cards.check(held, now=now) for now in (0.0, HELD_S - 1, HELD_S)]
    assert [check.state for check in verdicts if check] == ["warn", "warn", "fail"]
    assert cards.check(GpuState(CARD), now=HELD_S + 1) is None
    anew = cards.check(held, now=HELD_S + 2)
    assert anew is not None and anew.state == "warn"


def test_a_throttled_card_is_judged_alone() -> None:
    heat = HeatTracker()
    check = [GpuState(Card(0, "a", None), throttled=False), GpuState(CARD, throttled=True)]
    judge_gpus(check, heat, UnexplainedMemory(), now=0.0)
    found = judge_gpus(check, heat, UnexplainedMemory(), now=HOT_S)
    assert [(check.name, check.gpu) for check in found if check.state == "fail"] == [("thermal", 3)]
