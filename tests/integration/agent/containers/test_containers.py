"""Jobs in containers: with a real Podman, and the command lines for Apptainer and Enroot."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.agent.conftest import MakeAgent
from tests.support.agent import FROM_SOURCE, AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.containers.container_environment import ContainerContext
from warpdeck_agent.containers.containers import container_command, find_runtimes
from warpdeck_agent.containers.images import for_apptainer, for_enroot, for_podman, parse_image
from warpdeck_agent.containers.podman import STALE
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps
from warpdeck_agent.wire.messages import Container, Mount

CONTEXT = ContainerContext(
    launch="job-7.0",
    work_dir="/work",
    home="/home/ada",
    paths=["/work", "/tmp/mine"],
    env=["PATH", "HOME", "SLURM_JOB_ID", "LD_LIBRARY_PATH"],
    gpus=False,
    pty=False,
    as_root=False,
)


@pytest.mark.parametrize(
    ("text", "podman", "apptainer", "enroot"),
    [
        ("ubuntu:22.04", "docker.io/library/ubuntu:22.04", "docker://ubuntu:22.04", "docker://ubuntu:22.04"),
        ("docker://a/b", "docker.io/a/b", "docker://a/b", "docker://a/b"),
        (
            "nvcr.io#nvidia/pytorch:24.01",
            "nvcr.io/nvidia/pytorch:24.01",
            "docker://nvcr.io/nvidia/pytorch:24.01",
            "docker://nvcr.io#nvidia/pytorch:24.01",
        ),
        ("me@nvcr.io#x/y", "nvcr.io/x/y", "docker://nvcr.io/x/y", "docker://me@nvcr.io#x/y"),
        ("a/b@sha256:12", "docker.io/a/b@sha256:12", "docker://a/b@sha256:12", "docker://a/b@sha256:12"),
        ("dockerd://mine:1", "docker-daemon:mine:1", "docker-daemon:mine:1", "dockerd://mine:1"),
        ("podman://mine:1", "mine:1", "mine:1", "podman://mine:1"),
        ("./train.sqsh", "/work/train.sqsh", "/work/train.sqsh", "/work/train.sqsh"),
        ("/images/x.tar", "docker-archive:/images/x.tar", "docker-archive:/images/x.tar", "/images/x.tar"),
    ],
)
def test_image_names_are_parsed_as_by_pyxis(text: str, podman: str, apptainer: str, enroot: str) -> None:
    image = parse_image(text, work_dir="/work")
    assert (for_podman(image), for_apptainer(image), for_enroot(image)) == ([podman], apptainer, enroot)


@pytest.fixture
def tools(short_tmp: Path) -> Path:
    """A folder of stand-in container runtimes that only record their arguments, one per line."""
    for name in ("enroot", "apptainer", "podman"):
        program = short_tmp / name
        program.write_text(
            f'#!/bin/sh\nfor word; do echo "$word"; done >>{short_tmp}/said; echo . >>{short_tmp}/said\n'
        )
        program.chmod(0o755)
    return short_tmp


def command_lines(
    tools: Path, requested: Container, context: ContainerContext = CONTEXT, *, runtime: str
) -> list[list[str]]:
    """Return the command line of each call of the runtime, on a node that has no other runtime."""
    for name in ("enroot", "apptainer", "podman"):
        if name != runtime:
            (tools / name).unlink(missing_ok=True)
    command = container_command(["./train", "a b"], requested, context, path=str(tools))
    subprocess.run(command, check=False, env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tools)}, timeout=30)
    calls = (tools / "said").read_text().split("\n.\n")
    return [call.splitlines() for call in calls if call]


MOUNTS = [Mount("/data", "/in", ["ro", "rprivate"]), Mount("sub", "/sub")]


def test_the_apptainer_command_has_mounts_folder_and_gpus(tools: Path) -> None:
    requested = Container(image="nvcr.io#x/y:1", mounts=MOUNTS, workdir="/in")
    (text,) = command_lines(
        tools, requested, ContainerContext(**{**CONTEXT.__dict__, "gpus": True}), runtime="apptainer"
    )
    binds = ["--bind=/work:/work", "--bind=/tmp/mine:/tmp/mine", "--bind=/data:/in:ro,rprivate"]
    expected = ["exec", "--pwd=/in", *binds, "--bind=/work/sub:/sub", "--no-home", "--nv", "--writable-tmpfs"]
    assert text == [*expected, "docker://nvcr.io/x/y:1", "./train", "a b"]


def test_apptainer_stores_a_named_container_in_the_users_home(tools: Path) -> None:
    home = ContainerContext(**{**CONTEXT.__dict__, "home": str(tools)})
    requested = Container(image="ubuntu", name="mine", mount_home=True, remap_root=True, entrypoint=True)
    folder = f"{tools}/.local/share/warpdeck/containers/mine"
    build, run = command_lines(tools, requested, home, runtime="apptainer")
    assert build == ["build", "--sandbox", folder, "docker://ubuntu"]
    assert run[:2] == ["run", "--pwd=/work"] and f"--bind={tools}:{tools}" in run
    assert run[-5:] == ["--fakeroot", "--writable", folder, "./train", "a b"]


def test_the_enroot_commands_import_create_start_and_remove(tools: Path) -> None:
    requested = Container(image="nvcr.io#x/y:1", mounts=MOUNTS[:1], env=["PATH"])
    listed, fetched, created, started, removed = command_lines(tools, requested, runtime="enroot")
    assert listed == ["list"]
    assert fetched == ["import", "--output", f"{tools}/warpdeck-job-7.0.sqsh", "docker://nvcr.io#x/y:1"]
    assert created == ["create", "--name", "warpdeck-job-7.0", f"{tools}/warpdeck-job-7.0.sqsh"]
    assert started[:2] == ["start", "--rw"] and "/data:/in:ro,rprivate,rbind,x-create=auto" in started
    variables = [word for before, word in itertools.pairwise(started) if before == "--env"]
    assert variables == ["PATH", "SLURM_JOB_ID", "SLURM_LOCALID", "SLURM_PROCID"]
    assert started[-3:] == ["/work", "./train", "a b"] and removed == [
        "remove",
        "--force",
        "warpdeck-job-7.0",
    ]


def test_enroot_keeps_a_named_container(tools: Path) -> None:
    calls = command_lines(tools, Container(image="./x.sqsh", name="mine", writable=False), runtime="enroot")
    assert [call[0] for call in calls] == ["list", "create", "start"]
    assert calls[1] == ["create", "--name", "warpdeck-mine", "/work/x.sqsh"] and "--rw" not in calls[2]


def test_the_podman_command_has_no_variable_values_and_creates_no_cgroup(tools: Path) -> None:
    for name in ("enroot", "apptainer"):
        (tools / name).unlink()
    command = container_command(
        ["./train", "a b"], Container(image="ubuntu", writable=False), CONTEXT, path=str(tools)
    )
    text = command[command.index("run") :]
    assert {"--cgroups=disabled", "--network=host", "--userns=keep-id", "--read-only", "--rm"} <= set(text)
    assert [word for word in text if word.startswith("--env=")] == [
        "--env=SLURM_JOB_ID",
        "--env=SLURM_LOCALID",
        "--env=SLURM_PROCID",
    ]
    assert text[-3:] == ["docker.io/library/ubuntu", "./train", "a b"]


@pytest.mark.parametrize(
    ("requested", "gpus", "text"),
    [
        (Container(image="./x.sqsh"), False, "podman on this node cannot run an image of the kind squashfs"),
        (Container(image="/root", name="n"), False, "cannot be used with a folder as the image"),
        (Container(image="a", mounts=[Mount("/a:b", "/c")]), False, "the path contains a colon"),
        (Container(image="a"), True, "Podman on this node does not know its GPUs"),
    ],
)
def test_an_unsupported_container_option_has_a_clear_message(
    tools: Path, requested: Container, gpus: bool, text: str
) -> None:
    for name in ("enroot", "apptainer"):
        (tools / name).unlink()
    with pytest.raises(LaunchError, match=re.escape(text)):
        container_command(
            ["true"], requested, ContainerContext(**{**CONTEXT.__dict__, "gpus": gpus}), path=str(tools)
        )


def test_a_node_without_a_container_runtime_is_reported(short_tmp: Path) -> None:
    assert find_runtimes(str(short_tmp)) == []
    with pytest.raises(LaunchError, match="no container runtime: install Enroot, Apptainer or Podman"):
        container_command(["true"], Container(image="a"), CONTEXT, path=str(short_tmp))


# ---- a real Podman

ONE_HIERARCHY = """
if grep -q ' - cgroup ' /proc/self/mountinfo; then
    awk '{ for (i = 7; $i != "-"; i++); if ($(i + 1) == "cgroup2") print $5 }' /proc/self/mountinfo | while read -r mount; do
        umount "$mount" || exit 1; done
fi
exec "$@"
"""
"""Leave one cgroup hierarchy mounted: crun fails if controllers are in both kinds of hierarchy."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked image with a shell, the files that the shell needs, and a marker file."""
    folder = tmp_path_factory.mktemp("image") / "root"
    make_image(folder)
    return folder


def make_image(folder: Path) -> None:
    """Create an unpacked image with a shell, the files that the shell needs, and a marker file."""
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "run"):
        (folder / name).mkdir(parents=True)
    shell = os.path.realpath("/bin/sh")
    shutil.copy(shell, folder / "bin/sh")
    libraries = subprocess.run(["ldd", shell], capture_output=True, text=True, check=True, timeout=30).stdout
    for path in re.findall(r"(/\S+)", libraries):
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path[1:])
    (folder / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (folder / "mark").write_text("inside\n")


@pytest.fixture
def agent(make_agent: MakeAgent, short_tmp: Path) -> Iterator[AgentProcess]:
    """An agent on a node with Podman and one kind of cgroup hierarchy."""
    program = ["unshare", "--mount", "sh", "-c", ONE_HIERARCHY, "sh", *FROM_SOURCE]
    new_agent_process = AgentProcess(short_tmp / "agent", program=program)
    new_agent_process.start()
    yield new_agent_process
    new_agent_process.close()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a job whose Podman keeps all of its data in the test's folder."""
    conf = folder / "storage.conf"
    conf.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n')
    return {"PATH": "/usr/bin:/bin", "HOME": str(folder), "CONTAINERS_STORAGE_CONF": str(conf), "WORD": "a b"}


@pytest.mark.podman
def test_a_job_runs_in_its_container_with_its_folder_and_variables(
    agent: AgentProcess, root: Path, short_tmp: Path
) -> None:
    assert "podman" in agent.connect().inventory.containers
    (short_tmp / "input").write_text("data\n")
    script = [
        "read -r mark </mark; read -r data </in; echo $mark $data $WORD $SLURM_JOB_ID $1",
        'echo here >"$PWD/made"; echo there >"$TMPDIR/f" && echo $TMPDIR',
        "[ -e /etc/hostname.real ] || exit 7",
    ]
    requested = Container(image=str(root), mounts=[Mount("input", "/in", ["ro"])])
    env = {**environment(short_tmp), "SLURM_JOB_ID": "1"}
    report = agent.run(1, "\n".join(script), script_args=["word"], container=requested, env=env)
    lines = agent.text(1).splitlines()
    assert (report.exit_code, report.signal, lines[0]) == (7, 0, "inside data a b 1 word")
    assert lines[1].startswith("/tmp/warpdeck-") and (short_tmp / "made").read_text() == "here\n"


@pytest.mark.podman
def test_a_container_is_in_the_cgroups_of_its_job_and_ends_with_it(
    agent: AgentProcess, root: Path, short_tmp: Path
) -> None:
    script = "read -r first </proc/self/cgroup; echo $first; while read -r line; do echo $line; done </proc/self/cgroup\n"
    loop = "echo up; while :; do read -r nothing </proc/uptime; done"
    env = environment(short_tmp)
    agent.launch(1, script + loop, container=Container(image=str(root)), env=env, cpus=1)
    eventually(lambda: "up" in agent.text(1), what=f"it runs: {agent.text(1)}")
    groups = agent.connect().inventory.facilities[0]
    assert "job-1.0" in agent.text(1) or groups.strength != "enforced"
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=2.0))
    assert agent.link.report(1, "exited").cause == "cancelled"
    assert agent.processes(1) == []


def pack_image(root: Path, folder: Path) -> dict[str, str]:
    """Import the image into Podman's store; return the environment of jobs that use that store."""
    env, packed = environment(folder), folder / "root.tar"
    subprocess.run(["tar", "-C", str(root), "-cf", str(packed), "."], check=True, timeout=60)
    text = ["podman", "--cgroup-manager=cgroupfs", "import", "-q", str(packed), "localhost/wdtest"]
    subprocess.run(text, env=env, check=True, timeout=60)
    return env


@pytest.mark.podman
def test_a_named_container_keeps_its_files(agent: AgentProcess, root: Path, short_tmp: Path) -> None:
    env = pack_image(root, short_tmp)
    requested = Container(image="podman://localhost/wdtest", name="mine")
    assert agent.run(1, "echo kept >/note", container=requested, env=env).exit_code == 0, agent.text(1)
    agent.run(2, "read -r note </note; echo $note", container=Container(name="mine"), env=env)
    assert agent.text(2).splitlines()[-1:] == ["kept"]
    missing = agent.run(3, "true", container=Container(name="never"), env=env)
    assert missing.exit_code == 125 and "there is no container called never" in agent.text(3)


@pytest.mark.podman
def test_a_missing_image_fails_the_job_with_the_message_of_the_runtime(
    agent: AgentProcess, short_tmp: Path
) -> None:
    report = agent.run(1, "true", container=Container(image="/nowhere/root"), env=environment(short_tmp))
    assert report.exit_code == 125 and "nowhere" in agent.text(1)


def step(
    agent: AgentProcess, folder: Path, script: str, *, number: int, tasks: int, **requested: Any
) -> list[str]:
    """Run a step of job 1 and return the output of each task, after all tasks have succeeded."""
    agent.link.send(
        steps.StepLaunch(
            job_id=1,
            restarts=0,
            step=number,
            env=environment(folder),
            cwd=str(folder),
            argv=["/bin/sh", "-c", script],
            tasks=[steps.StepTask(rank=rank, env={"SLURM_PROCID": str(rank)}) for rank in range(tasks)],
            container=Container(**requested),
        )
    )
    report = agent.link.expect(
        steps.StepReport,
        lambda report: (report.phase, report.step) == ("exited", number),
    )
    errors = [agent.text(1, f"steps/{number}/{rank}/err") for rank in range(tasks)]
    assert [end.code for end in report.ends] == [0] * tasks, errors
    return [agent.text(1, f"steps/{number}/{rank}/out") for rank in range(tasks)]


def left(folder: Path) -> list[str]:
    """Return the containers that Podman knows."""
    argv = ["podman", "ps", "--all", "--format", "{{.Names}}"]
    result = subprocess.run(
        argv, env=environment(folder), capture_output=True, text=True, check=True, timeout=60
    )
    return result.stdout.split()


MEET = """echo $SLURM_PROCID >/met.$SLURM_PROCID
until [ -e /met.0 ] && [ -e /met.1 ]; do :; done
read -r mark </mark; read -r data </in; read -r line; echo "$mark $data $SLURM_PROCID $line" """


@pytest.mark.podman
def test_tasks_of_a_step_share_a_container_that_ends_with_the_last(
    agent: AgentProcess, root: Path, short_tmp: Path
) -> None:
    agent.launch(1, "sleep 600")
    agent.link.report(1, "running")
    (short_tmp / "input").write_text("data\n")
    image = short_tmp / "own"
    shutil.copytree(root, image)
    requested = {"image": str(image), "mounts": [Mount("input", "/in", ["ro"])]}
    assert step(agent, short_tmp, MEET, number=0, tasks=2, **requested) == ["inside data 0", "inside data 1"]
    assert left(short_tmp) == []


@pytest.mark.podman
def test_leftovers_of_a_killed_container_are_removed_at_the_next_start(
    agent: AgentProcess, root: Path, short_tmp: Path
) -> None:
    env = environment(short_tmp)
    loop = "echo up; while :; do read -r nothing </proc/uptime; done"
    agent.launch(1, loop, container=Container(image=str(root)), env=env)
    eventually(lambda: "up" in agent.text(1), what=f"it runs: {agent.text(1)}")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    agent.link.report(1, "exited")
    assert len(left(short_tmp)) == 1, "no process was left to remove it"
    argv = ["unshare", "--mount", "sh", "-c", ONE_HIERARCHY, "sh", "/bin/sh", "-c", STALE]

    def sweep() -> bool:  # Podman measures ages in whole seconds
        subprocess.run([*argv, "podman", "podman", "1ms", "true"], env=env, check=True, timeout=60)
        return left(short_tmp) == []

    eventually(sweep, what="the process has ended")


@pytest.mark.podman
def test_a_named_container_is_shared_by_tasks_and_kept_for_later_steps(
    agent: AgentProcess, root: Path, short_tmp: Path
) -> None:
    pack_image(root, short_tmp)
    agent.launch(1, "sleep 600")
    agent.link.report(1, "running")
    requested = {"image": "podman://localhost/wdtest", "name": "mine"}
    text = "echo $SLURM_PROCID >/by.$SLURM_PROCID; until [ -e /by.0 ] && [ -e /by.1 ]; do :; done"
    step(agent, short_tmp, text, number=0, tasks=2, **requested)
    kept = "for each in /by.*; do echo ${each#/by.}; done"
    assert step(agent, short_tmp, kept, number=1, tasks=1, name="mine") == ["0\n1"]
    assert left(short_tmp) == ["warpdeck-mine"]


@pytest.mark.podman
def test_a_step_with_an_unsupported_image_is_reported(
    agent: AgentProcess, root: Path, short_tmp: Path
) -> None:
    agent.launch(1, "sleep 600")
    agent.link.report(1, "running")
    agent.link.send(
        steps.StepLaunch(
            job_id=1,
            restarts=0,
            step=0,
            env=environment(short_tmp),
            cwd=str(short_tmp),
            argv=["true"],
            tasks=[steps.StepTask(rank=0)],
            container=Container(image="./x.sqsh"),
        )
    )
    report = agent.link.expect(steps.StepReport, lambda report: report.phase == "exited")
    assert "podman on this node cannot run an image of the kind squashfs" in report.message
