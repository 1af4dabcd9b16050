"""Hosts that offer little: no cgroups, and a /tmp that is full or may not be written."""

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
LEAVING = (
    "setsid sleep 1071 </dev/null >/dev/null 2>&1 & env -i setsid sleep 1072 </dev/null >/dev/null 2>&1 &"
)


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    """gpu3, whose agent finds no cgroup."""
    with lab.small_disk(3, GROUPS):
        words = ["--name", "gpu3", "--accept-host-key", lab.fingerprint(3)]
        shared_home.ok("node", "add", f"root@{lab.address(3)}", *words)
        yield shared_home
        shared_home.ok("node", "rm", "--force", "gpu3")


def test_what_a_session_by_ssh_leaves_ends_with_its_job(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = home.json("submit", "--no-snapshot", "--wrap", "sleep 1000", cwd=short_tmp)["job_id"]
    eventually(lambda: home.state(job) == "RUNNING", what="it runs")
    config = short_tmp / "ssh_config"
    config.write_text(home.ok("proxy", "--config"))
    ssh = ["ssh", "-F", str(config), "-o", "BatchMode=yes", f"wd-{job}"]
    done = subprocess.run(
        [*ssh, f"hostname; {LEAVING} echo $SLURM_JOB_ID"],
        env=home.environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["host3", str(job)], done.stderr
    assert lab.pids(3, "sleep 1071") and lab.pids(3, "sleep 1072")
    open_session = subprocess.Popen(
        [*ssh, "echo here; exec sleep 1073"], env=home.environ, stdout=subprocess.PIPE, text=True
    )
    with open_session:
        assert open_session.stdout is not None and open_session.stdout.readline() == "here\n"
        home.ok("cancel", str(job))
        eventually(lambda: home.job(job)["end"], what="it has ended")
        assert not any(lab.pids(3, f"sleep {number}") for number in (1071, 1072, 1073))
        assert open_session.wait(60) != 0


def test_a_full_tmp_keeps_nobody_from_working(home: Home, lab: Lab) -> None:
    """Where the site lets nodes be that full."""
    config = home.path / "config.toml"
    before = config.read_text() if config.exists() else ""
    config.write_text(f'{before}\n[health]\nmin_free = "0"\n')
    home.ok("config", "reload")
    with lab.small_disk(3, "/tmp", size="1m"):
        lab.on(3, "sh", "-c", "cat /dev/zero >/tmp/filler 2>/dev/null || true")
        said = home.slurm("srun", "-w", "gpu3", "-D", "/var/tmp", "hostname")
        assert said.stdout == "host3\n", said.stderr
        command = ("sh", "-c", "srun -D /var/tmp hostname; echo $?")
        said = home.slurm("salloc", "-w", "gpu3", *command)
        assert said.stdout == "host3\n0\n", said.stderr
    config.write_text(before)
    home.ok("config", "reload")


def test_a_read_only_tmp_drains_the_node_and_fails_no_job(home: Home, lab: Lab, short_tmp: Path) -> None:
    home.ok("node", "check", "gpu3")
    with lab.small_disk(3, "/tmp"):
        lab.on(3, "mount", "-o", "remount,ro", "/tmp")
        command = ("submit", "--no-snapshot", "-w", "gpu3", "-o", "/dev/null", "--wrap", "true")
        job = home.json(*command, cwd=short_tmp)["job_id"]
        eventually(lambda: "/tmp may not be written" in home.node("gpu3")["reason"], what="the node drains")
        home.run("node", "check", "gpu3")
        assert "read-only" in home.node("gpu3")["reason"].lower(), "as the check finds, too"
        assert home.state(job) == "PENDING"
    home.ok("node", "check", "gpu3")
    eventually(lambda: home.state(job) == "COMPLETED", what=f"it runs: {home.job(job)}")
