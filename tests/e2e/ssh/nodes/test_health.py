"""Nodes with faults during jobs, over SSH, from the driver's message to the resume by an admin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
HEALTHY = "driver 550.54.15\n" + "".join(f"gpu {index}\n" for index in range(4))


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with the node gpu2, which has four GPUs and a site's health check."""
    folder = tmp_path_factory.mktemp("site")
    folder.chmod(0o755)
    (folder / "check").write_text(f"#!/bin/sh\n[ ! -e {folder}/bad ] || {{ cat {folder}/bad; exit 1; }}\n")
    (folder / "check").chmod(0o755)
    config = f'[health]\nprogram = "{folder}/check"\ninterval_s = 1\nrequeue_on = ["ecc"]\n'
    config += "[gpus]\nshare_start_s = 600\n"
    (shared_home.path / "config.toml").write_text(config)
    lab.show_driver(2, HEALTHY)
    target = f"root@{lab.address(2)}"
    shared_home.ok("node", "add", target, "--name", "gpu2", "--accept-host-key", lab.fingerprint(2))
    shared_home.ok("config", "reload")
    shared_home.environ["SITE"] = str(folder)
    yield shared_home
    shared_home.ok("node", "rm", "--force", "gpu2")
    lab.show_gpus(2)


def node(home: Home) -> dict[str, Any]:
    row: dict[str, Any] = home.node("gpu2")
    return row


def begin(home: Home, folder: Path, *options: str) -> int:
    """Start a job that runs until it is ended."""
    argv = ("submit", "--no-snapshot", *options, "--wrap", "echo begun; sleep 1000")
    job = int(home.json(*argv, cwd=folder)["job_id"])
    eventually(lambda: (folder / f"slurm-{job}.out").exists(), what=f"job {job} runs")
    return job


def gpus_of(home: Home, job: int) -> list[int]:
    return [gpu["index"] for gpu in home.json("show", str(job))["gpus"]]


def test_an_xid_error_drains_its_gpu_until_an_admin_resumes_it(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = begin(home, short_tmp, "--gpus=2")
    bad_gpu = gpus_of(home, job)[1]
    lab.show_driver(2, HEALTHY + f"event 1 {bad_gpu} 8 79\n")
    output = short_tmp / f"slurm-{job}.out"
    message = f"GPU {bad_gpu} of gpu2: Xid 79: the GPU has fallen off the bus"
    eventually(lambda: message in output.read_text(), what="the message is in the job's output")
    assert home.json("show", str(job))["notice"] == message
    assert any(message in event["text"] for event in home.json("show", str(job))["events"])
    assert home.state(job) == "RUNNING"
    assert node(home)["gpus"][bad_gpu]["blocked"] == "drained: Xid 79: the GPU has fallen off the bus"
    assert node(home)["state"] == "mixed", "the other GPUs stay in use"
    home.ok("cancel", str(job))
    eventually(lambda: home.job(job)["end"], what="the job has ended")

    checked = home.run("node", "check", "gpu2", "--json")
    assert checked.returncode == 1
    failed = [row for row in json.loads(checked.stdout)[0]["checks"] if row["verdict"] == "fail"]
    assert [(row["check"], row["gpu"]) for row in failed] == [("xid", bad_gpu)]

    whole = home.json("submit", "--no-snapshot", "--gpus=4", "--wrap", "true", cwd=short_tmp)["job_id"]
    eventually(lambda: home.job(whole)["why"]["code"] != "None", what="the job has a reason")
    assert home.state(whole) == "PENDING" and "drained: Xid 79" in home.job(whole)["why"]["sentence"]
    home.ok("node", "resume", "gpu2", "--gpu", str(bad_gpu))
    eventually(lambda: home.state(whole) == "COMPLETED", what="the resumed GPU is used")
    lab.show_driver(2, HEALTHY)
    assert home.run("node", "check").returncode == 0


def test_a_job_on_a_gpu_with_an_ecc_error_is_requeued_on_another_gpu(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    job = begin(home, short_tmp, "--gpus=1", "--requeue")
    (bad_gpu,) = gpus_of(home, job)
    lab.show_driver(2, HEALTHY + f"gpu {bad_gpu} ecc_u=1\n")
    eventually(
        lambda: home.job(job)["restarts"] == 1 and home.state(job) == "RUNNING", what="the job runs again"
    )
    assert gpus_of(home, job) != [bad_gpu]
    home.ok("cancel", str(job))
    lab.show_driver(2, HEALTHY)
    home.ok("node", "resume", "gpu2")


def test_a_failing_health_program_drains_the_node_until_it_succeeds(home: Home, short_tmp: Path) -> None:
    fault_file = Path(home.environ["SITE"]) / "bad"
    fault_file.write_text("/scratch is not mounted\nand more\n")
    eventually(lambda: node(home)["state"] == "drained", what="the node is drained")
    assert node(home)["reason"] == "/scratch is not mounted"
    result = home.run("node", "check", "gpu2")
    assert result.returncode == 1
    line = next(line.split() for line in result.stdout.splitlines() if "program" in line)
    assert line == ["gpu2", "program", "fail", "/scratch", "is", "not", "mounted"]
    fault_file.unlink()
    eventually(lambda: node(home)["state"] == "idle", what="the node takes jobs again")


def test_a_check_of_an_unreachable_node_fails(home: Home, lab: Lab) -> None:
    unknown = home.run("node", "check", "nowhere")
    assert unknown.returncode == 1 and "there is no node nowhere" in unknown.stderr
    pid = lab.agent(2)
    lab.on(2, "kill", "-STOP", str(pid))
    try:
        lab.on(2, "sh", "-c", 'kill "$@" || true', "-", *map(str, lab.pids(2, "attach --dir")))
        eventually(lambda: node(home)["state"] in ("down", "connecting"), what="the link is gone")
        result = home.run("node", "check", "gpu2", "--json")
        (row,) = json.loads(result.stdout)
        assert result.returncode == 1 and row["error"].startswith("the node does not answer")
    finally:
        lab.on(2, "kill", "-CONT", str(pid))
    eventually(lambda: node(home)["state"] == "idle", what="the node is back")


def test_the_usage_of_a_job_is_shown_and_kept_after_its_end(home: Home, lab: Lab, short_tmp: Path) -> None:
    lab.show_driver(2, "".join(f"{line} util=60 used=2147483648\n" for line in HEALTHY.splitlines()[1:]))
    gate = short_tmp / "gate"
    step_command = f"srun -n1 --gpus=1 sh -c 'while [ ! -e {gate} ]; do sleep 0.1; done'"
    argv = ("submit", "--no-snapshot", "--gpus=2", "--wrap", step_command)
    job = str(home.json(*argv, cwd=short_tmp)["job_id"])
    metrics = eventually(
        lambda: (shown := home.json("metrics", job))["curves"] and shown, what="the job has a curve"
    )
    assert metrics["curves"][0]["node"] == "gpu2" and 60 in metrics["curves"][0]["columns"]["gpu_util_pct"]
    gate.touch()
    eventually(lambda: home.job(job)["end"], what="the job has ended")
    used = home.job(job)["used"]
    assert (round(used["gpu_util_pct"]), used["gpu_idle_pct"], used["gpu_mem_peak_bytes"]) == (60, 0, 4 << 30)
    assert used["energy_j"] > 0
    step = next(step_row for step_row in home.json("show", job)["steps"] if step_row["id"] == f"{job}.0")
    assert step["state"] == "COMPLETED"
    assert (round(step["used"]["gpu_util_pct"]), step["used"]["gpu_mem_peak_bytes"]) == (60, 2 << 30)
    kept = home.json("metrics", job)
    assert kept["used"] == used and 60 in kept["curves"][0]["columns"]["gpu_util_pct"]
    assert "GPUs at 60 %" in home.ok("show", job)
    printed = home.ok("metrics", job)
    assert "GPU utilization" in printed and "4G of GPU memory at most" in printed
    lines = home.ok("metrics", "--node", "gpu2").splitlines()
    assert any(line.startswith("gpu2 GPU 3") and "GPU memory" in line for line in lines)
    assert home.run("metrics").returncode == 2
    lab.show_driver(2, HEALTHY)


def test_jobs_that_share_a_gpu_start_one_after_the_other(home: Home, lab: Lab, short_tmp: Path) -> None:
    first = begin(home, short_tmp, "--gpus=0.25")
    argv = ("submit", "--no-snapshot", "--gpus=0.25", "--wrap", "true")
    second = home.json(*argv, cwd=short_tmp)["job_id"]
    reason = f"waits until job {first} has allocated its memory on the shared GPU"
    eventually(lambda: reason in home.ok("why", str(second)), what="the reason is shown")
    assert home.state(second) == "CONFIGURING"
    (gpu,) = home.json("show", str(second))["gpus"]
    assert (gpu["share_pct"], gpu["isolation"]) == (25, "")
    line = next(
        line for line in home.ok("node", "show", "gpu2").splitlines() if f"GPU {gpu['index']} " in line
    )
    assert f"shared by job {first} (25 %), job {second} (25 %), not isolated" in line
    home.ok("cancel", str(first))
    eventually(lambda: home.state(second) == "COMPLETED", what="the second job runs")
