"""Three hosts over SSH: a real training sweep and a two-node job continue although the controller is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab

TRAIN = """
import os, sys, time
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

print("pid", os.getpid(), "code", "OLD", flush=True)
rates = [0.1, 0.01, 0.001]
rate = rates[int(os.environ["SLURM_ARRAY_TASK_ID"])]
images, digits = load_digits(return_X_y=True)
model = MLPClassifier(hidden_layer_sizes=(32,), learning_rate_init=rate, random_state=0)
for epoch in range(8):
    model.partial_fit(images / 16, digits, classes=range(10))
    print(f"epoch {epoch} lr {rate} loss {model.loss_:.4f}", flush=True)
while not os.path.exists(os.path.join(os.environ["SLURM_SUBMIT_DIR"], "gate")):
    time.sleep(0.05)
print("gpus", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
"""
SWEEP = f"""#!/bin/bash
#SBATCH --job-name=digits
#SBATCH --array=0-2
#SBATCH --gres=gpu:h100:2
#SBATCH --time=10:00
#SBATCH --output=logs/%x-%A_%a.out
exec {sys.executable} train.py
"""
GANG = """#!/bin/bash
#SBATCH --job-name=gang --nodes=2 --gpus-per-node=1 -o gang.out
cat version.txt
echo "$SLURM_JOB_NODELIST $SLURM_NNODES $SLURM_JOB_NUM_NODES"
until [ -e "$SLURM_SUBMIT_DIR/gate" ]; do sleep 0.05; done
"""


@pytest.fixture
def repository(short_tmp: Path) -> Path:
    """A git repository with a committed script and an uncommitted change."""
    folder = short_tmp / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('not this')\n")
    (folder / "sweep.sh").write_text(SWEEP)
    (folder / ".gitignore").write_text("logs/\n*.out\n")
    for argv in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", *argv], cwd=folder, check=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "gang.sh").write_text(GANG)
    (folder / "version.txt").write_text("old version\n")
    return folder


def add_nodes(lab: Lab, home: Home) -> None:
    """Add each host. It is refused while its key is unknown, and added after its fingerprint is confirmed."""
    for host in range(1, lab.count + 1):
        target = f"root@{lab.address(host)}"
        refused = home.run("node", "add", target, "--name", f"gpu{host}")
        assert refused.returncode == 1
        assert lab.fingerprint(host) in refused.stderr
        home.ok("node", "add", target, "--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host))
    rows = home.json("node", "ls")
    assert [(row["name"], row["state"], len(row["gpus"])) for row in rows] == [
        (f"gpu{host}", "idle", 4) for host in range(1, lab.count + 1)
    ]


def first_line(path: Path) -> list[str]:
    return path.read_text().splitlines()[:1] if path.exists() else []


def test_a_sweep_and_a_two_node_job_survive_an_edit_and_a_killed_controller(
    lab: Lab, lab_home: Home, repository: Path
) -> None:
    home = lab_home
    add_nodes(lab, home)
    sweep = home.json("submit", "sweep.sh", cwd=repository)["job_id"]
    gang = home.json("submit", "gang.sh", cwd=repository)["job_id"]
    (repository / "train.py").write_text("raise SystemExit('the new code must not run')\n")
    (repository / "version.txt").write_text("new version\n")

    log = repository / "logs" / f"digits-{sweep}_0.out"
    line = eventually(lambda: first_line(log), what="the first task's first line")[0]
    assert line.startswith("pid "), log.read_text()
    pid = int(line.split()[1])
    gpu = home.json("show", f"{sweep}_0")["gpus"][0]
    host = int(gpu["node"].removeprefix("gpu"))
    lab.show_gpus(host, util=87, processes=[(gpu["index"], pid, 20 << 30)])

    def attributed() -> bool:
        row = home.node(gpu["node"])["gpus"][gpu["index"]]
        return [(process["pid"], process["job"]) for process in row["processes"]] == [
            (pid, f"{sweep}_0")
        ] and row["util_pct"] == 87

    eventually(attributed, what="the process is attributed to its task")
    lab.show_gpus(host)

    home.kill_controller()
    eventually(lambda: home.run("status").returncode == 1, what="the controller is gone")
    (repository / "gate").touch()

    tasks = [f"{sweep}_{task}" for task in range(3)]
    for job in (*tasks, gang):
        eventually(
            lambda job=job: home.state(job) == "COMPLETED", timeout_s=60, what=f"job {job} {home.job(job)}"
        )
        assert home.job(job)["exit_code"] == "0:0"

    for task, rate in enumerate((0.1, 0.01, 0.001)):
        text = (repository / "logs" / f"digits-{sweep}_{task}.out").read_text()
        assert "code OLD" in text and f"epoch 7 lr {rate} loss" in text
        indices = [str(gpu_row["index"]) for gpu_row in home.json("show", f"{sweep}_{task}")["gpus"]]
        assert len(indices) == 2 and f"gpus {','.join(indices)}" in text
        assert home.json("logs", f"{sweep}_{task}")["text"] == text
    nodes = home.job(gang)["node_list"]
    assert (repository / "gang.out").read_text() == f"old version\n{nodes} 2 2\n"
    shown = home.json("snapshot", "show", str(sweep))
    assert shown["dirty"] and "train.py" in shown["paths"] and "version.txt" in shown["paths"]
    assert "+new version" in home.ok("snapshot", "diff", str(sweep))


def test_a_gpu_in_use_outside_the_queue_is_not_allocated(lab: Lab, lab_home: Home, short_tmp: Path) -> None:
    home = lab_home
    target = f"root@{lab.address(1)}"
    home.ok("node", "add", target, "--name", "gpu1", "--accept-host-key", lab.fingerprint(1))
    lab.show_gpus(1, processes=[(index, 1, 30 << 30) for index in range(4)])
    try:
        eventually(lambda: home.node("gpu1")["gpus"][3]["blocked"], what="GPU 3 is blocked")
        job = home.json("submit", "--no-snapshot", "--gpus", "1", "--wrap", "true", cwd=short_tmp)["job_id"]
        why = eventually(lambda: home.json("why", str(job)), what="a reason")
        eventually(
            lambda: "outside the queue" in home.json("why", str(job))["sentence"], what=f"named: {why}"
        )
        assert home.state(job) == "PENDING"
    finally:
        lab.show_gpus(1)
    eventually(lambda: home.state(job) == "COMPLETED", what="the job runs after the GPU is free")


def test_a_job_continues_while_its_node_is_disconnected(lab: Lab, lab_home: Home, short_tmp: Path) -> None:
    home = lab_home
    target = f"root@{lab.address(2)}"
    home.ok("node", "add", target, "--name", "gpu2", "--accept-host-key", lab.fingerprint(2))
    script = "until [ -e gate ]; do sleep 0.05; done; echo done"
    job = home.json("submit", "--no-snapshot", "--wrap", script, cwd=short_tmp)["job_id"]
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    lab.sh("partition", "2")
    try:
        eventually(
            lambda: home.json("node", "ls")[0]["state"] == "down", timeout_s=60, what="the link is lost"
        )
        assert home.state(job) == "RUNNING"
        (short_tmp / "gate").touch()
    finally:
        lab.sh("heal", "2")
    eventually(lambda: home.state(job) == "COMPLETED", timeout_s=90, what="the job has ended")
    assert (short_tmp / f"slurm-{job}.out").read_text() == "done\n"
