"""Hosts without cgroups, and with a full or read-only /tmp."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
GROUPS = "/sys/fs/cgroup"
DETACHED_PROCESSES = (
    "setsid sleep 1071 </dev/null >/dev/null 2>&1 & env -i setsid sleep 1072 </dev/null >/dev/null 2>&1 &"
)


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    """A home with the node gpu3, on which the agent finds no cgroups."""
    with lab.small_disk(3, GROUPS):
        options = ["--name", "gpu3", "--accept-host-key", lab.fingerprint(3)]
        shared_home.ok("node", "add", f"root@{lab.address(3)}", *options)
        yield shared_home
        shared_home.ok("node", "rm", "--force", "gpu3")


def test_processes_left_by_an_ssh_session_end_with_the_job(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = home.json("submit", "--no-snapshot", "--wrap", "sleep 1000", cwd=short_tmp)["job_id"]
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    config = short_tmp / "ssh_config"
    config.write_text(home.ok("proxy", "--config"))
    ssh = ["ssh", "-F", str(config), "-o", "BatchMode=yes", f"wd-{job}"]
    session = subprocess.run(
        [*ssh, f"hostname; {DETACHED_PROCESSES} echo $SLURM_JOB_ID"],
        env=home.environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert session.stdout.split() == ["host3", str(job)], session.stderr
    assert lab.pids(3, "sleep 1071") and lab.pids(3, "sleep 1072")
    open_session = subprocess.Popen(
        [*ssh, "echo here; exec sleep 1073"], env=home.environ, stdout=subprocess.PIPE, text=True
    )
    with open_session:
        assert open_session.stdout is not None and open_session.stdout.readline() == "here\n"
        home.ok("cancel", str(job))
        eventually(lambda: home.job(job)["end"], what="the job has ended")
        assert not any(lab.pids(3, f"sleep {number}") for number in (1071, 1072, 1073))
        assert open_session.wait(60) != 0


def test_steps_run_on_a_node_with_a_full_tmp(home: Home, lab: Lab) -> None:
    """The site's limit for free space allows such a full disk."""
    config = home.path / "config.toml"
    before = config.read_text() if config.exists() else ""
    config.write_text(f'{before}\n[health]\nmin_free = "0"\n')
    home.ok("config", "reload")
    with lab.small_disk(3, "/tmp", size="1m"):
        lab.on(3, "sh", "-c", "cat /dev/zero >/tmp/filler 2>/dev/null || true")
        result = home.slurm("srun", "-w", "gpu3", "-D", "/var/tmp", "hostname")
        assert result.stdout == "host3\n", result.stderr
        command = ("sh", "-c", "srun -D /var/tmp hostname; echo $?")
        result = home.slurm("salloc", "-w", "gpu3", *command)
        assert result.stdout == "host3\n0\n", result.stderr
    config.write_text(before)
    home.ok("config", "reload")


def test_a_read_only_tmp_drains_the_node_and_fails_no_job(home: Home, lab: Lab, short_tmp: Path) -> None:
    home.ok("node", "check", "gpu3")
    with lab.small_disk(3, "/tmp"):
        lab.on(3, "mount", "-o", "remount,ro", "/tmp")
        command = ("submit", "--no-snapshot", "-w", "gpu3", "-o", "/dev/null", "--wrap", "true")
        job = home.json(*command, cwd=short_tmp)["job_id"]
        eventually(
            lambda: "cannot write to /tmp on this node" in home.node("gpu3")["reason"], what="the node drains"
        )
        home.run("node", "check", "gpu3")
        assert "read-only" in home.node("gpu3")["reason"].lower(), "the check finds it too"
        assert home.state(job) == "PENDING"
    home.ok("node", "check", "gpu3")
    eventually(lambda: home.state(job) == "COMPLETED", what=f"the job runs: {home.job(job)}")
