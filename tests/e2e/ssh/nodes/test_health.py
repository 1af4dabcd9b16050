"""Nodes that fail while people work on them: over SSH, with the driver's own words, from the fault to the admin's resume."""

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
WELL = "driver 550.54.15\n" + "".join(f"gpu {index}\n" for index in range(4))


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """gpu2 with four GPUs and a site's own check."""
    folder = tmp_path_factory.mktemp("site")
    folder.chmod(0o755)
    (folder / "check").write_text(f"#!/bin/sh\n[ ! -e {folder}/bad ] || {{ cat {folder}/bad; exit 1; }}\n")
    (folder / "check").chmod(0o755)
    config = f'[health]\nprogram = "{folder}/check"\ninterval_s = 1\nrequeue_on = ["ecc"]\n'
    config += "[gpus]\nshare_start_s = 600\n"
    (shared_home.path / "config.toml").write_text(config)
    lab.show_driver(2, WELL)
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
    """A job that runs until it is ended."""
    words = ("submit", "--no-snapshot", *options, "--wrap", "echo begun; sleep 1000")
    job = int(home.json(*words, cwd=folder)["job_id"])
    eventually(lambda: (folder / f"slurm-{job}.out").exists(), what=f"job {job} runs")
    return job


def gpus_of(home: Home, job: int) -> list[int]:
    return [gpu["index"] for gpu in home.json("show", str(job))["gpus"]]


def test_an_xid_takes_its_gpu_out_tells_the_job_and_waits_for_an_admin(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    job = begin(home, short_tmp, "--gpus=2")
    hit = gpus_of(home, job)[1]
    lab.show_driver(2, WELL + f"event 1 {hit} 8 79\n")
    output = short_tmp / f"slurm-{job}.out"
    words = f"GPU {hit} of gpu2: Xid 79: the GPU has fallen off the bus"
    eventually(lambda: words in output.read_text(), what="the job is told where its people look")
    assert home.json("show", str(job))["notice"] == words
    assert any(words in event["text"] for event in home.json("show", str(job))["events"])
    assert home.state(job) == "RUNNING"
    assert node(home)["gpus"][hit]["blocked"] == "drained: Xid 79: the GPU has fallen off the bus"
    assert node(home)["state"] == "mixed", "the others go on"
    home.ok("cancel", str(job))
    eventually(lambda: home.job(job)["end"], what="it has ended")

    checked = home.run("node", "check", "gpu2", "--json")
    assert checked.returncode == 1
    bad = [row for row in json.loads(checked.stdout)[0]["checks"] if row["verdict"] == "fail"]
    assert [(row["check"], row["gpu"]) for row in bad] == [("xid", hit)]

    whole = home.json("submit", "--no-snapshot", "--gpus=4", "--wrap", "true", cwd=short_tmp)["job_id"]
    eventually(lambda: home.job(whole)["why"]["code"] != "None", what="it was looked at")
    assert home.state(whole) == "PENDING" and "drained: Xid 79" in home.job(whole)["why"]["sentence"]
    home.ok("node", "resume", "gpu2", "--gpu", str(hit))
    eventually(lambda: home.state(whole) == "COMPLETED", what="the resumed GPU is used")
    lab.show_driver(2, WELL)
    assert home.run("node", "check").returncode == 0


def test_a_job_on_a_gpu_with_broken_memory_goes_elsewhere(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = begin(home, short_tmp, "--gpus=1", "--requeue")
    (hit,) = gpus_of(home, job)
    lab.show_driver(2, WELL + f"gpu {hit} ecc_u=1\n")
    eventually(lambda: home.job(job)["restarts"] == 1 and home.state(job) == "RUNNING", what="it runs anew")
    assert gpus_of(home, job) != [hit]
    home.ok("cancel", str(job))
    lab.show_driver(2, WELL)
    home.ok("node", "resume", "gpu2")


def test_the_sites_program_drains_with_its_first_line_and_resumes_by_itself(
    home: Home, short_tmp: Path
) -> None:
    bad = Path(home.environ["SITE"]) / "bad"
    bad.write_text("/scratch is not mounted\nand more\n")
    eventually(lambda: node(home)["state"] == "drained", what="the node is drained")
    assert node(home)["reason"] == "/scratch is not mounted"
    told = home.run("node", "check", "gpu2")
    assert told.returncode == 1
    line = next(line.split() for line in told.stdout.splitlines() if "program" in line)
    assert line == ["gpu2", "program", "fail", "/scratch", "is", "not", "mounted"]
    bad.unlink()
    eventually(lambda: node(home)["state"] == "idle", what="it takes jobs again")


def test_a_node_that_cannot_be_asked_fails_the_check(home: Home, lab: Lab) -> None:
    nobody = home.run("node", "check", "nowhere")
    assert nobody.returncode == 1 and "there is no node nowhere" in nobody.stderr
    pid = lab.agent(2)
    lab.on(2, "kill", "-STOP", str(pid))
    try:
        lab.on(2, "sh", "-c", 'kill "$@" || true', "-", *map(str, lab.pids(2, "attach --dir")))
        eventually(lambda: node(home)["state"] in ("down", "connecting"), what="the link is gone")
        told = home.run("node", "check", "gpu2", "--json")
        (row,) = json.loads(told.stdout)
        assert told.returncode == 1 and row["error"].startswith("the node does not answer")
    finally:
        lab.on(2, "kill", "-CONT", str(pid))
    eventually(lambda: node(home)["state"] == "idle", what="the node is back")


def test_what_a_job_uses_is_shown_while_it_runs_and_kept(home: Home, lab: Lab, short_tmp: Path) -> None:
    lab.show_driver(2, "".join(f"{line} util=60 used=2147483648\n" for line in WELL.splitlines()[1:]))
    gate = short_tmp / "gate"
    waits = f"srun -n1 --gpus=1 sh -c 'while [ ! -e {gate} ]; do sleep 0.1; done'"
    words = ("submit", "--no-snapshot", "--gpus=2", "--wrap", waits)
    job = str(home.json(*words, cwd=short_tmp)["job_id"])
    found = eventually(lambda: (told := home.json("metrics", job))["curves"] and told, what="it has a curve")
    assert found["curves"][0]["node"] == "gpu2" and 60 in found["curves"][0]["columns"]["gpu_util_pct"]
    gate.touch()
    eventually(lambda: home.job(job)["end"], what="it has ended")
    used = home.job(job)["used"]
    assert (round(used["gpu_util_pct"]), used["gpu_idle_pct"], used["gpu_mem_peak_bytes"]) == (60, 0, 4 << 30)
    assert used["energy_j"] > 0
    step = next(each for each in home.json("show", job)["steps"] if each["id"] == f"{job}.0")
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
    lab.show_driver(2, WELL)


def test_sharers_of_a_gpu_begin_in_turn_and_are_shown_as_not_isolated(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    first = begin(home, short_tmp, "--gpus=0.25")
    words = ("submit", "--no-snapshot", "--gpus=0.25", "--wrap", "true")
    second = home.json(*words, cwd=short_tmp)["job_id"]
    waits = f"waits until job {first}, which began on the same GPU, has its memory"
    eventually(lambda: waits in home.ok("why", str(second)), what="it is said why it does not run yet")
    assert home.state(second) == "CONFIGURING"
    (gpu,) = home.json("show", str(second))["gpus"]
    assert (gpu["share_pct"], gpu["isolation"]) == (25, "")
    line = next(
        line for line in home.ok("node", "show", "gpu2").splitlines() if f"GPU {gpu['index']} " in line
    )
    assert f"shared by job {first} (25 %), job {second} (25 %), not isolated" in line
    home.ok("cancel", str(first))
    eventually(lambda: home.state(second) == "COMPLETED", what="its turn has come")
