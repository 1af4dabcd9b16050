"""Containers of ordinary users: a rootless Podman of the user under a root agent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.agent.conftest import ADA, Gpus, agent_of_root
from tests.integration.agent.containers.test_containers import ONE_HIERARCHY, make_image
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps
from warpdeck_agent.wire.messages import Container

pytestmark = [pytest.mark.lab, pytest.mark.podman]
NODE = """
mount --make-rshared / || exit 1
for name in subuid subgid; do
    echo "ada:$((1 << 20)):65536" >"$0/$name" && mount --bind "$0/$name" /etc/$name || exit 1
done
dev="$0/dev"
mount -t tmpfs tmpfs "$dev" && mkdir "$dev/pts" "$dev/shm" || exit 1
mount --bind /dev/pts "$dev/pts" && mount --bind /dev/shm "$dev/shm" || exit 1
while read -r name major minor; do mknod -m 666 "$dev/$name" c "$major" "$minor" || exit 1; done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
ptmx 5 2
nvidia0 195 0
nvidia1 195 1
nvidiactl 195 255
END
mount --rbind "$dev" /dev || exit 1
mkdir -p /run/cdi && mount --bind "$0/cdi" /run/cdi && exec "$@"
"""
"""Set up a machine with two GPUs in the agent's own mount namespace.

ada's containers may use a range of ids.
"""
CDI = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": "all", "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{each}"} for each in "01"]}}
    ],
    "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}]},
}
"""A CDI specification in the format of nvidia-ctk."""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with ada's home and an image that she may read."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as path:
        folder = Path(path)
        folder.chmod(0o711)
        make_image(folder / "root")
        subprocess.run(["chown", "-R", f"{ADA}:{ADA}", str(folder / "root")], check=True, timeout=30)
        home = folder / "home"
        home.mkdir()
        os.chown(home, ADA, ADA)
        for name in ("dev", "cdi"):
            (folder / name).mkdir()
        (folder / "cdi/nvidia.json").write_text(json.dumps(CDI))
        yield folder
        Path(f"/dev/shm/libpod_rootless_lock_{ADA}").unlink(missing_ok=True)
        shutil.rmtree(f"/tmp/podman-run-{ADA}", ignore_errors=True)


@pytest.fixture(scope="module")
def agent(place: Path, library: Path) -> Iterator[AgentProcess]:
    driver = Gpus(library, place)
    driver.show("gpu 0 uuid=GPU-0 minor=0", "gpu 1 uuid=GPU-1 minor=1")
    first = ["sh", "-c", ONE_HIERARCHY, "sh", "sh", "-c", NODE, str(place)]
    with agent_of_root(place, *first, **driver.environ) as agent_process:
        yield agent_process


def environment(place: Path) -> dict[str, str]:
    """Return the environment of a job whose Podman keeps all of its data in ada's home."""
    conf = place / "home/storage.conf"
    store = f'[storage]\ndriver = "vfs"\ngraphroot = "{place}/home/store"\nrunroot = "{place}/home/run"\n'
    conf.write_text(store)
    return {"PATH": "/usr/bin:/bin", "HOME": str(place / "home"), "CONTAINERS_STORAGE_CONF": str(conf)}


def of_ada(place: Path, **environ: str) -> dict[str, Any]:
    """Return the launch fields that all launches of ada share."""
    return {
        "user": "ada",
        "uid": ADA,
        "cwd": str(place / "home"),
        "env": {**environment(place), **environ},
        "container": Container(image=str(place / "root")),
    }


def run(agent: AgentProcess, place: Path, script: str, *, gpus: Sequence[str] = (), **environ: str) -> str:
    """Run a job in a container, check that it succeeds, and return its output."""
    job = agent.new_id()
    report = agent.run(job, script, gpus=list(gpus), **of_ada(place, **environ))
    assert report.exit_code == 0, agent.text(job)
    return agent.text(job)


@pytest.fixture(scope="module")
def own_agent(place: Path, library: Path) -> Iterator[AgentProcess]:
    """An agent that runs as ada on the same machine."""
    folder = place / "hers"
    (folder / "agent").mkdir(parents=True)
    for name in ("dev", "cdi"):
        (folder / name).mkdir()
    os.chown(folder / "agent", ADA, ADA)
    drop = ["setpriv", f"--reuid={ADA}", f"--regid={ADA}", "--clear-groups"]
    first = ["sh", "-c", ONE_HIERARCHY, "sh", "sh", "-c", NODE, str(folder), *drop]
    with agent_of_root(folder, *first) as agent_process:
        yield agent_process


def test_an_agent_of_a_user_runs_containers_and_leaves_nothing(own_agent: AgentProcess, place: Path) -> None:
    name = f"/dev/shm/wd-{os.getpid()}-own"
    script = f'read -r mark </mark; echo $mark; echo x >{name}; echo mine >"$PWD/hers"'
    assert run(own_agent, place, script).splitlines()[-1] == "inside"
    assert (place / "home/hers").stat().st_uid == ADA
    assert not os.path.exists(name)


def test_a_container_runs_with_the_uid_of_its_user(agent: AgentProcess, place: Path) -> None:
    script = 'read -r mark </mark; echo $mark; echo mine >"$PWD/made"; while read -r line; do echo "$line"; done </proc/self/status'
    lines = run(agent, place, script).splitlines()
    assert lines[0] == "inside"
    uid = next(line.split()[1] for line in lines if line.startswith("Uid:"))
    assert uid == str(ADA) and (place / "home/made").stat().st_uid == ADA


def test_a_container_can_open_only_the_gpus_of_its_job(agent: AgentProcess, place: Path) -> None:
    """The CDI file describes all GPUs of the node to Podman. The job's cgroup closes the others."""
    text = "for name in nvidia0 nvidia1 nvidiactl; do (exec 3<>/dev/$name) 2>&1; done; echo $CUDA_VISIBLE_DEVICES; :"
    report = run(agent, place, text, gpus=["GPU-1"], CUDA_VISIBLE_DEVICES="GPU-1")
    refused = [line for line in report.splitlines() if "not permitted" in line]
    closed = agent.connect().inventory.facilities[-1].strength == "enforced"
    assert [line for line in refused if "nvidia0" in line] == (refused if closed else [])
    assert len(refused) == int(closed) and report.count("No such device") == 3 - len(refused), report
    assert report.splitlines()[-1] == "GPU-1"


def test_a_container_ends_with_its_job_and_others_continue(agent: AgentProcess, place: Path) -> None:
    """Podman's helper processes serve all containers of a user and belong to the user's first job."""
    jobs = [agent.new_id() for _ in range(2)]
    for job in jobs:
        agent.launch(job, "echo up; while :; do read -r nothing </proc/uptime; done", **of_ada(place))
        eventually(lambda job=job: "up" in agent.text(job), what="the job runs")
    agent.link.send(wire.Kill(job_id=jobs[0], restarts=0, grace_s=0.0))
    agent.link.report(jobs[0], "exited")
    assert agent.processes(jobs[0]) == [] and agent.processes(jobs[1])
    assert run(agent, place, "echo and a third one").splitlines()[-1] == "and a third one"
    agent.link.send(wire.Kill(job_id=jobs[1], restarts=0, grace_s=0.0))
    agent.link.report(jobs[1], "exited")
    assert agent.processes(jobs[1]) == []


def test_a_signal_reaches_the_process_in_a_container(agent: AgentProcess, place: Path) -> None:
    job = agent.new_id()
    script = "trap 'echo got it; exit 3' USR1; echo up; while :; do read -r nothing </proc/uptime; done"
    agent.launch(job, script, **of_ada(place))
    eventually(lambda: "up" in agent.text(job), what="the job runs")
    agent.link.send(wire.Kill(job_id=job, restarts=0, signal=10))
    assert agent.link.report(job, "exited").exit_code == 3
    assert "got it" in agent.text(job).splitlines()


def test_a_container_can_have_a_terminal_with_its_size(agent: AgentProcess, place: Path) -> None:
    job = agent.new_id()
    argv = ["/bin/sh", "-c", "[ -t 0 ] && [ -t 1 ] && echo a terminal; read -r word; echo read $word; exit 6"]
    agent.launch(job, role="tasks", argv=argv, pty=True, **of_ada(place))
    agent.link.report(job, "running")
    agent.link.send(wire.OpenPty(stream=job, job_id=job, restarts=0, rows=33, cols=101))
    agent.link.output(job, b"a terminal")
    agent.link.send_data(job, b"words\n")
    agent.link.output(job, b"read words")
    assert agent.link.report(job, "exited").exit_code == 6


def begin_step(agent: AgentProcess, place: Path, *, job: int, text: str) -> None:
    """Start a step with two tasks that share a container."""
    agent.link.send(
        steps.StepLaunch(
            job_id=job,
            restarts=0,
            step=0,
            env=environment(place),
            cwd=str(place / "home"),
            argv=["/bin/sh", "-c", text],
            tasks=[steps.StepTask(rank=rank, env={"SLURM_PROCID": str(rank)}) for rank in (0, 1)],
            container=Container(image=str(place / "root")),
        )
    )


def test_the_tasks_of_a_step_share_the_nodes_memory(agent: AgentProcess, place: Path) -> None:
    """NCCL and PyTorch's data loaders need the node's shared memory.

    It is shared with the job's other steps and containers, too.
    """
    job = agent.new_id()
    given = of_ada(place)
    agent.launch(job, "sleep 600", **{**given, "container": None})
    agent.link.report(job, "running")
    name = f"/dev/shm/wd-{os.getpid()}-{job}"
    text = f"if [ $SLURM_PROCID = 0 ]; then echo shared >{name}; exit; fi; "
    text += f"until [ -s {name} ]; do :; done; read -r word <{name}; echo $word"
    begin_step(agent, place, job=job, text=text)
    report = agent.link.expect(steps.StepReport, lambda report: report.phase == "exited")
    assert [end.code for end in report.ends] == [0, 0], agent.text(job, "steps/0/1/err")
    assert agent.text(job, "steps/0/1/out").splitlines()[-1:] == ["shared"]
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    agent.link.report(job, "exited")
    assert not os.path.exists(name)


def test_tasks_in_a_shared_container_can_be_ended(agent: AgentProcess, place: Path) -> None:
    job = agent.new_id()
    agent.launch(job, "sleep 600", **{**of_ada(place), "container": None})
    agent.link.report(job, "running")
    text = "trap 'echo told; exit 3' TERM; echo up; while :; do read -r nothing </proc/uptime; done"
    begin_step(agent, place, job=job, text=text)
    for rank in (0, 1):
        eventually(lambda rank=rank: "up" in agent.text(job, f"steps/0/{rank}/out"), what="the job runs")
    agent.link.send(steps.StepKill(job_id=job, restarts=0, step=0, grace_s=30.0))
    report = agent.link.expect(steps.StepReport, lambda report: report.phase == "exited")
    assert [(end.code, end.signal) for end in report.ends] == [(3, 0), (3, 0)], agent.text(
        job, "steps/0/1/err"
    )
    assert [agent.text(job, f"steps/0/{rank}/out").split() for rank in (0, 1)] == [["up", "told"]] * 2
    agent.link.send(wire.Kill(job_id=job, restarts=0, grace_s=0.0))
    agent.link.report(job, "exited")
    assert agent.processes(job) == []


def test_containers_of_two_jobs_have_separate_tmp_folders(agent: AgentProcess, place: Path) -> None:
    given = {**of_ada(place), "private_dirs": ["/tmp"], "shared_dirs": [str(place)]}
    jobs = [agent.new_id() for _ in range(2)]
    for job in jobs:
        text = f"echo {job} >/tmp/note; echo up; until [ -e {place}/home/go ]; do :; done; read -r note </tmp/note; echo $note"
        agent.launch(job, text, **given)
        eventually(lambda job=job: "up" in agent.text(job), what="the job runs")
    (place / "home/go").touch()
    for job in jobs:
        report = agent.link.report(job, "exited")
        assert (report.exit_code, agent.text(job).split()[-2:]) == (0, ["up", str(job)]), agent.text(job)
