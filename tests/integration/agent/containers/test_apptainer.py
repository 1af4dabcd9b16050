"""Containers of ordinary users: a real Apptainer under a root agent."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.agent.conftest import ADA, agent_of_root
from tests.integration.agent.containers.test_containers import make_image
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps
from warpdeck_agent.wire.messages import Container, Mount

pytestmark = [pytest.mark.root, pytest.mark.apptainer]
ROOT = "/var/cache/warpdeck-tests/apptainer/root"
NODE = """
for place in usr etc var/lib; do mount -t overlay overlay -o "lowerdir=$1/$place:/$place" "/$place" || exit 1; done
for name in subuid subgid; do echo "ada:$((1 << 20)):65536" >"$0/$name" || exit 1; done
for name in passwd group subuid subgid; do mount --bind "$0/$name" /etc/$name || exit 1; done
mknod -m 666 "$0/fuse" c 10 229 && mount --bind "$0/fuse" /dev/fuse || exit 1
shift
exec "$@"
"""
"""Set up a machine with Apptainer in the agent's own mount namespace.

ada's containers may use a range of ids and FUSE.
"""
LOOP = "echo up; while :; do read -r nothing </proc/uptime; done"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with ada's home and an image that she may read, both unpacked and packed."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/srv") as path:
        folder = Path(path)
        folder.chmod(0o711)
        make_image(folder / "root")
        subprocess.run(["chown", "-R", f"{ADA}:{ADA}", str(folder / "root")], check=True, timeout=30)
        (folder / "home").mkdir()
        os.chown(folder / "home", ADA, ADA)
        packed = [str(folder / "root"), str(folder / "home/root.sqsh"), "-noappend", "-quiet", "-no-progress"]
        subprocess.run(["mksquashfs", *packed], check=True, timeout=60)
        yield folder


@pytest.fixture(scope="module")
def agent(place: Path) -> Iterator[AgentProcess]:
    with agent_of_root(place, "sh", "-c", NODE, str(place), ROOT) as agent_process:
        yield agent_process


def of_ada(place: Path, *, image: str = "", **requested: Any) -> dict[str, Any]:
    """Return the launch fields that all launches of ada share."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place / "home"), "WORD": "a b", "LD_LIBRARY_PATH": "/node's"}
    env["PYTHONPATH"] = "/node's packages"
    container = Container(image=image or ("" if "name" in requested else str(place / "root")), **requested)
    return {"user": "ada", "uid": ADA, "cwd": str(place / "home"), "env": env, "container": container}


def run(agent: AgentProcess, place: Path, script: str, **requested: Any) -> list[str]:
    """Run a job in a container, check that it succeeds, and return its lines without Apptainer's own."""
    job = agent.new_id()
    report = agent.run(job, script, **of_ada(place, **requested))
    assert report.exit_code == 0, agent.text(job)
    return own(agent.text(job))


def own(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("INFO:", "WARNING:"))]


def test_a_job_runs_in_its_container_as_its_user_with_its_folder_and_variables(
    agent: AgentProcess, place: Path
) -> None:
    assert agent.connect().inventory.containers[0] == "apptainer"
    (place / "home/input").write_text("data\n")
    script = [
        "read -r mark </mark; read -r data </in; echo $mark $data $WORD $1 ${LD_LIBRARY_PATH:-none}",
        'echo here >"$PWD/made"; echo there >"$TMPDIR/f" && echo $TMPDIR; echo new >/new && echo written',
        "echo no >/in || exit 7",
    ]
    requested = Container(image=str(place / "root"), mounts=[Mount("input", "/in", ["ro"])])
    job = agent.new_id()
    given = {**of_ada(place), "container": requested}
    report = agent.run(job, "\n".join(script), script_args=["word"], **given)
    lines = own(agent.text(job))
    assert (report.exit_code, lines[0]) == (7, "inside data a b word none"), agent.text(job)
    assert lines[1].startswith("/tmp/warpdeck-") and lines[2] == "written"
    assert (place / "home/made").stat().st_uid == ADA
    assert not (place / "root/new").exists(), "files written by the job are gone"


def test_search_paths_are_passed_only_on_request(agent: AgentProcess, place: Path) -> None:
    text = "echo $LD_LIBRARY_PATH,$PYTHONPATH,$WORD"
    assert run(agent, place, text) == [",,a b"]
    assert run(agent, place, text, env=["PYTHONPATH"]) == [",/node's packages,a b"]
    named = {"image": "./root.sqsh", "name": "paths"}
    assert run(agent, place, text, **named, env=["LD_LIBRARY_PATH"]) == ["/node's:/.singularity.d/libs,,a b"]
    assert run(agent, place, 'echo "$PATH"', env=["PATH"]) == [f"{agent.folder}/bin:/usr/bin:/bin"]


def test_a_squashfs_image_can_be_run(agent: AgentProcess, place: Path) -> None:
    assert run(agent, place, "read -r mark </mark; echo $mark", image="./root.sqsh") == ["inside"]


def test_a_container_can_have_a_working_folder_and_be_read_only(agent: AgentProcess, place: Path) -> None:
    text = "echo $PWD; (echo x >/new) 2>/dev/null || echo refused"
    assert run(agent, place, text, workdir="/etc", writable=False) == ["/etc", "refused"]


def test_a_user_can_be_root_in_a_container(agent: AgentProcess, place: Path) -> None:
    script = "while read -r name value rest; do [ $name != Uid: ] || echo $value; done </proc/self/status"
    assert run(agent, place, script, remap_root=True) == ["0"]
    assert run(agent, place, script) == [str(ADA)]


def test_a_named_container_keeps_its_files(agent: AgentProcess, place: Path) -> None:
    script = 'echo kept >/note && echo here >"$PWD/named" && echo $PWD'
    assert run(agent, place, script, image="./root.sqsh", name="mine") == [str(place / "home")]
    assert (place / "home/named").read_text() == "here\n"
    assert run(agent, place, "read -r note </note; echo $note", name="mine") == ["kept"]
    job = agent.new_id()
    assert agent.run(job, "true", **of_ada(place, name="never")).exit_code == 125
    assert "there is no container called never" in agent.text(job)


def test_a_container_is_in_the_cgroups_of_its_job_and_ends_with_it(agent: AgentProcess, place: Path) -> None:
    script = "while read -r line; do echo $line; done </proc/self/cgroup\n"
    job = agent.new_id()
    agent.launch(job, script + LOOP, **of_ada(place, image="./root.sqsh"))
    eventually(lambda: "up" in own(agent.text(job)), what=f"it runs: {agent.text(job)}")
    groups = agent.connect().inventory.facilities[0]
    assert f"job-{job}.0" in agent.text(job) or groups.strength != "enforced"
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=2.0))
    assert agent.link.report(job, "exited").cause == "cancelled"
    assert agent.processes(job) == []


def test_a_signal_reaches_the_process_in_a_container(agent: AgentProcess, place: Path) -> None:
    job = agent.new_id()
    agent.launch(job, f"trap 'echo got it; exit 3' USR1; {LOOP}", **of_ada(place))
    eventually(lambda: "up" in own(agent.text(job)), what="the job runs")
    agent.link.send(wire.Kill(job_id=job, restarts=0, signal=10))
    assert agent.link.report(job, "exited").exit_code == 3
    assert "got it" in own(agent.text(job))


def test_a_container_can_have_a_terminal(agent: AgentProcess, place: Path) -> None:
    job = agent.new_id()
    argv = ["/bin/sh", "-c", "[ -t 0 ] && [ -t 1 ] && echo a terminal; read -r word; echo read $word; exit 6"]
    agent.launch(job, role="tasks", argv=argv, pty=True, **of_ada(place))
    agent.link.report(job, "running")
    agent.link.send(wire.OpenPty(stream=job, job_id=job, restarts=0, rows=33, cols=101))
    agent.link.output(job, b"a terminal")
    agent.link.send_data(job, b"words\n")
    agent.link.output(job, b"read words")
    assert agent.link.report(job, "exited").exit_code == 6


def step(
    agent: AgentProcess, place: Path, script: str, *, job: int, number: int, **requested: Any
) -> list[str]:
    """Run a step with two tasks and return the output of each task, after both have succeeded."""
    given = of_ada(place, **requested)
    tasks = [steps.StepTask(rank=rank, env={"SLURM_PROCID": str(rank)}) for rank in (0, 1)]
    argv = ["/bin/sh", "-c", script]
    home = {"env": given["env"], "cwd": given["cwd"], "container": given["container"]}
    agent.link.send(steps.StepLaunch(job_id=job, restarts=0, step=number, argv=argv, tasks=tasks, **home))
    report = agent.link.expect(
        steps.StepReport, lambda report: (report.phase, report.step) == ("exited", number)
    )
    errors = [agent.text(job, f"steps/{number}/{rank}/err") for rank in (0, 1)]
    assert [end.code for end in report.ends] == [0, 0], errors
    return [agent.text(job, f"steps/{number}/{rank}/out").strip() for rank in (0, 1)]


def test_tasks_of_a_step_share_files_and_a_named_container(agent: AgentProcess, place: Path) -> None:
    job = agent.new_id()
    agent.launch(job, "sleep 600", **{**of_ada(place), "container": None})
    agent.link.report(job, "running")
    folder = f"{place}/home"
    both = f"until [ -e {folder}/met.0 ] && [ -e {folder}/met.1 ]; do :; done"
    text = f"echo $SLURM_PROCID >{folder}/met.$SLURM_PROCID; {both}; echo $SLURM_PROCID"
    assert step(agent, place, text, job=job, number=0) == ["0", "1"]
    text = "echo $SLURM_PROCID >/by.$SLURM_PROCID; until [ -e /by.0 ] && [ -e /by.1 ]; do :; done"
    step(agent, place, text, job=job, number=1, image="./root.sqsh", name="both")
    kept = "for each in /by.*; do echo ${each#/by.}; done"
    assert step(agent, place, kept, job=job, number=2, name="both") == ["0\n1"] * 2
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    agent.link.report(job, "exited")
    assert agent.processes(job) == []


def test_a_missing_image_fails_the_job_with_the_message_of_the_runtime(
    agent: AgentProcess, place: Path
) -> None:
    job = agent.new_id()
    assert agent.run(job, "true", **of_ada(place, image="/nowhere/root.sif")).exit_code != 0
    assert "nowhere" in agent.text(job)
