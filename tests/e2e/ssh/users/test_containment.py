"""Containment on a real host: the enforced limits, memory, GPU memory in use by others, private folders, and
the site's prolog.
"""

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


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    """A home with the node gpu1, which has stand-in GPUs."""
    options = ["--name", "gpu1", "--accept-host-key", lab.fingerprint(1)]
    shared_home.ok("node", "add", f"root@{lab.address(1)}", *options)
    yield shared_home


def submit(home: Home, folder: Path, command: str, *options: str) -> int:
    submit_argv = ["submit", "--no-snapshot", *options, "--wrap", command]
    return int(home.json(*submit_argv, cwd=folder)["job_id"])


def wait_for_end(home: Home, job: int) -> dict[str, Any]:
    eventually(lambda: home.job(job)["end"], what=f"job {job} has ended: {home.job(job)}")
    shown = home.json("show", str(job))
    return {**shown["row"], **shown}


def test_node_show_lists_the_enforced_limits(home: Home) -> None:
    facilities = home.node("gpu1")["facilities"]
    assert [facility["name"] for facility in facilities] == [
        *("end", "memory", "cpus", "processes", "folders", "devices")
    ]
    shown = home.ok("node", "show", "gpu1")
    for facility in facilities:
        assert facility["strength"] in ("enforced", "watched", "advised")
        assert f"{facility['name']}: {facility['strength']} ({facility['how']})" in shown


def test_a_job_over_its_memory_limit_ends_out_of_memory_with_its_peak(home: Home, short_tmp: Path) -> None:
    hog = "python3 -c 'import signal; held = bytearray(200 << 20); signal.pause()'"
    row = wait_for_end(home, submit(home, short_tmp, hog, "--mem=100M"))
    assert (row["state"], row["exit_cause"]) == ("OUT_OF_MEMORY", "oom")
    assert row["message"].startswith("out of memory: the job used")
    assert row["used"]["peak_mem_bytes"] >= 90 << 20
    sacct = home.slurm("sacct", "-nXP", "-j", str(row["id"]), "-o", "State,ExitCode")
    assert sacct.stdout == "OUT_OF_MEMORY|0:125\n", "as in Slurm, without the signal"
    assert "ExitCode=0:125\n" in home.slurm("scontrol", "show", "job", str(row["id"])).stdout
    [as_json] = json.loads(home.slurm("sacct", "--json", "-j", str(row["id"])).stdout)["jobs"]
    assert as_json["exit_code"]["signal"]["signal_id"] == 125
    waited = home.slurm(
        "sbatch", "--wait", "-o", "/dev/null", "--mem=100M", "--wrap", f"{hog}; exit $?", cwd=short_tmp
    )
    assert waited.returncode == 1, "the shell's 137 is not the exit code of the job"


def test_a_step_over_the_memory_limit_ends_and_the_script_continues(home: Home, short_tmp: Path) -> None:
    hog = "python3 -c 'held = bytearray(300 << 20)'"
    out = short_tmp / "out"
    job = submit(home, short_tmp, f"srun {hog}; echo rc $?; srun true", "--mem=100M", "--output", f"{out}")
    steps = {step["id"]: step["state"] for step in wait_for_end(home, job)["steps"]}
    assert (steps[f"{job}.0"], steps[f"{job}.1"]) == ("OUT_OF_MEMORY", "COMPLETED")
    eventually(lambda: out.exists() and "rc 137" in out.read_text(), what="the output has arrived")
    assert "srun: error: gpu1: task 0: Out Of Memory\n" in out.read_text()
    record = home.slurm("sacct", "-nP", "-j", f"{job}.0", "-o", "State,ExitCode").stdout
    assert record == "OUT_OF_MEMORY|0:125\n"


def test_a_step_is_limited_to_its_own_memory_request(home: Home, short_tmp: Path) -> None:
    out, hog = short_tmp / "out", "python3 -c 'held = bytearray({} << 20)'"
    script = "; ".join(
        [
            f"srun --mem=60M {hog.format(150)}",
            "echo first $?",
            f"srun --mem=0 {hog.format(150)}",
            f"echo all $?; srun --exact -n1 --mem-per-cpu=200M {hog.format(150)}",
            "echo each $?",
        ]
    )
    job = submit(home, short_tmp, script, "--mem=400M", "--cpus-per-task=2", "--output", f"{out}")
    row = wait_for_end(home, job)
    assert row["state"] == "COMPLETED", row["message"]
    eventually(lambda: out.exists() and "each" in out.read_text(), what="the output has arrived")
    output = out.read_text()
    assert [line for line in output.splitlines() if line[0] in "fae"] == ["first 137", "all 0", "each 0"]
    assert f"slurmstepd: error: Detected 1 oom-kill event(s) in StepId={job}.0." in output
    states = home.slurm("sacct", "-nPXj", str(job), "-o", "State").stdout.split()
    sacct_options = ["-nPj", f"{job}.0", "-o", "State,MaxRSS,AllocTRES", "--noconvert"]
    states += home.slurm("sacct", *sacct_options).stdout.split("|")
    assert states[:2] == ["COMPLETED", "OUT_OF_MEMORY"] and "mem=60M" in states[3]
    assert 50 << 20 <= int(states[2]) <= 60 << 20, "the peak of the step's cgroup"


def test_a_process_left_on_a_gpu_is_named_in_the_reason_of_the_next_job(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    gate, started = short_tmp / "stays", short_tmp / "seen"
    command = f"cp /proc/self/stat {started}; while [ ! -e {gate} ]; do sleep 0.1; done"
    first = submit(home, short_tmp, command, "--gpus-per-node=4")
    eventually(started.exists, what="the job runs")
    try:
        lab.show_gpus(1, processes=[(index, 1, 30 << 30) for index in range(4)])
        gate.touch()
        assert wait_for_end(home, first)["state"] == "COMPLETED"
        second = submit(home, short_tmp, "true", "--gpus=1")
        sentence = eventually(
            lambda: reason_with(home, second, "outside the queue"), what="the process is named"
        )
        assert "(pid 1, 30.0 GiB)" in sentence and home.state(second) == "PENDING"
    finally:
        lab.show_gpus(1)
    assert wait_for_end(home, second)["state"] == "COMPLETED"


def reason_with(home: Home, job: int, text: str) -> str:
    """Return the reason why the job waits if it contains the text, and an empty string otherwise."""
    sentence = str(home.json("why", str(job))["sentence"])
    return sentence if text in sentence else ""


def test_all_processes_of_a_job_share_a_private_tmp(home: Home, short_tmp: Path) -> None:
    config = home.path / "config.toml"
    config.write_text('[containment]\nprivate_dirs = ["/tmp", "/dev/shm"]\n')
    home.ok("config", "reload")
    note = f"/tmp/wd-{short_tmp.name}"
    script = f"echo mine >{note}; srun -n2 --overcommit sh -c 'cat {note}; echo $TMPDIR'"
    job = submit(home, short_tmp, script, "--output", f"{short_tmp}/deep/out")
    detail = wait_for_end(home, job)
    assert detail["state"] == "COMPLETED", home.ok("logs", str(job))
    out = short_tmp / "deep/out"
    eventually(lambda: out.exists() and len(out.read_text().split()) == 4, what="the output has arrived")
    assert sorted(out.read_text().split()) == ["/tmp", "/tmp", "mine", "mine"]
    assert not Path(note).exists(), "the hosts share /tmp with this machine"
    config.unlink()
    home.ok("config", "reload")


def test_a_failing_prolog_drains_the_node_and_holds_the_job(home: Home, lab: Lab, short_tmp: Path) -> None:
    prolog, ran = short_tmp / "prolog", short_tmp / "ran"
    prolog.write_text("#!/bin/sh\necho no scratch disk >&2\nexit 1\n")
    prolog.chmod(0o755)
    config = home.path / "config.toml"
    config.write_text(f'[hooks]\nprolog = "{prolog}"\n')
    home.ok("config", "reload")
    job = submit(home, short_tmp, f"touch {ran}")
    eventually(lambda: home.node("gpu1")["state"] == "drained", what="the node is drained")
    reason = home.node("gpu1")["reason"]
    assert reason == f"the prolog {prolog} failed (exit 1): no scratch disk"
    row = home.job(job)
    assert (row["state"], row["held"], row["restarts"]) == ("PENDING", True, 1) and not ran.exists()
    prolog.write_text(f"#!/bin/sh\necho $SLURM_JOB_ID >{short_tmp}/seen_id\n")
    home.ok("node", "resume", "gpu1")
    home.ok("release", str(job))
    assert wait_for_end(home, job)["state"] == "COMPLETED"
    assert (short_tmp / "seen_id").read_text() == f"{job}\n" and ran.exists()
    config.unlink()
    home.ok("config", "reload")
