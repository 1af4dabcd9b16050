"""A host that loses its power and boots again: its jobs end or restart, each start runs once, and the node
takes jobs again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck_agent.storage.launch_table import RECORD_BYTES, LaunchRecord
from warpdeck_agent.storage.spool import TABLE

pytestmark = pytest.mark.lab
BACK_S = 90.0
"""Time until a dead link is noticed, about 20 s, and two pauses between attempts."""
AGENTS = Path("/var/lib/warpdeck")
"""All hosts of the lab share one disk below this folder, and the tests see it too."""


@pytest.fixture
def home(lab: Lab, lab_home: Home) -> Iterator[Home]:
    """A home with gpu1, which will lose its power, and gpu2, which will not. Host 1 is up again after the
    test.
    """
    for host in (1, 2):
        argv = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
        lab_home.ok("node", "add", f"root@{lab.address(host)}", *argv)
    yield lab_home


@contextmanager
def power_cut(lab: Lab, host: int) -> Iterator[None]:
    """Crash the host, and boot it again at the end."""
    lab.sh("crash", str(host))
    try:
        yield
    finally:
        lab.sh("boot", str(host))


def submit(home: Home, folder: Path, node: str, command: str, *options: str) -> int:
    argv = ["submit", "--no-snapshot", "-w", node, *options, "--wrap", command]
    return int(home.json(*argv, cwd=folder)["job_id"])


def wait_for_end(home: Home, job: int) -> dict[str, Any]:
    eventually(lambda: home.job(job)["end"], timeout_s=BACK_S, what=f"job {job} ends: {home.job(job)}")
    return home.job(job)


def state(home: Home, name: str) -> str:
    return str(home.node(name)["state"])


def status_of(job: int) -> tuple[int, int] | None:
    """Return the job's exit status in the agents' tables."""
    for path in AGENTS.glob(f"*/{TABLE}"):
        with path.open("rb") as table:
            for number in range(path.stat().st_size // RECORD_BYTES):
                record = LaunchRecord(table.fileno(), number)
                if record.key() == (job, 0) and record.status() is not None:
                    return record.status()
    return None


def test_jobs_of_a_host_without_power_end_or_restart_and_others_continue(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    gate, runs = short_tmp / "gate", short_tmp / "runs"
    count_script = (
        f"echo $SLURM_JOB_ID:${{SLURM_RESTART_COUNT:-0}} >>{runs}; while [ ! -e {gate} ]; do sleep 0.1; done"
    )
    requeued = submit(home, short_tmp, "gpu1", count_script, "--requeue")
    gang = submit(home, short_tmp, "gpu[1-2]", count_script, "-N", "2", "--no-requeue")
    other_job = submit(home, short_tmp, "gpu2", count_script)
    eventually(lambda: runs.exists() and len(runs.read_text().split()) == 3, what="all jobs run")
    with power_cut(lab, 1):
        states = {home.state(job) for job in (requeued, gang, other_job)}
        assert states == {"RUNNING"}, "jobs on an unreachable node may still run"
    row = wait_for_end(home, gang)
    assert (row["state"], row["exit_cause"], row["restarts"]) == ("NODE_FAIL", "node_fail", 0)
    assert "gpu1 was rebooted" in home.json("show", str(gang))["message"]
    eventually(
        lambda: (home.state(requeued), home.job(requeued)["restarts"]) == ("RUNNING", 1),
        timeout_s=BACK_S,
        what=f"the job with --requeue runs again: {home.job(requeued)}",
    )
    gate.touch()
    assert [wait_for_end(home, job)["state"] for job in (requeued, other_job)] == ["COMPLETED", "COMPLETED"]
    assert sorted(runs.read_text().split()) == sorted(
        [f"{requeued}:0", f"{requeued}:1", f"{gang}:0", f"{other_job}:0"]
    ), "no start ran twice"
    assert state(home, "gpu1") == "idle"
    assert wait_for_end(home, submit(home, short_tmp, "gpu1", "true"))["state"] == "COMPLETED"


def test_a_reboot_revokes_an_allocation_and_grants_a_waiting_one(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    """The holder of the allocation is told that its node is gone. The waiting allocation gets the node after
    the reboot.
    """
    environ = {**home.environ, "PYTHONUNBUFFERED": "1"}
    salloc = [sys.executable, "-m", "warpdeck.slurm.runtime.entry", "salloc", "-w", "gpu1", "--gpus=4"]
    first_log, second_log = short_tmp / "held", short_tmp / "waits"
    with first_log.open("w") as first_file, second_log.open("w") as second_file:
        command = ["sh", "-c", "echo here; sleep 1000 & wait"]
        holder = subprocess.Popen(
            [*salloc, *command], env=environ, cwd="/", stdout=first_file, stderr=first_file
        )
        eventually(lambda: "here" in first_log.read_text(), what="the first allocation is granted")
        command = ["srun", "hostname"]
        waiter = subprocess.Popen(
            [*salloc, *command], env=environ, cwd="/", stdout=second_file, stderr=second_file
        )
        eventually(lambda: "queued and waiting" in second_log.read_text(), what="the second allocation waits")
        with power_cut(lab, 1):
            eventually(lambda: state(home, "gpu1") == "down", timeout_s=BACK_S, what="the link is lost")
            assert (holder.poll(), waiter.poll()) == (None, None)
        assert waiter.wait(BACK_S) == 0
        assert "host1" in second_log.read_text()
        eventually(
            lambda: "revoked. Reason: gpu1 was rebooted" in first_log.read_text(), what="the holder is told"
        )
        holder.terminate()
        holder.wait(60)


def test_a_job_end_recorded_before_a_power_cut_is_reported_after_it(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    gate, finished = short_tmp / "gate", short_tmp / "over"
    command = f"while [ ! -e {gate} ]; do sleep 0.1; done; touch {finished}; exit 9"
    job = submit(home, short_tmp, "gpu1", command, "--no-requeue")
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    lab.sh("sshd", "1", "stop")
    eventually(lambda: state(home, "gpu1") == "down", what="the link is lost")
    gate.touch()
    eventually(lambda: lab.pids(1, str(gate)) == [], what="the job has ended")
    eventually(lambda: status_of(job) == (9, 0), what="its status is in the agent's table")
    with power_cut(lab, 1):
        assert home.state(job) == "RUNNING"
    row = wait_for_end(home, job)
    assert (row["state"], row["exit_code"]) == ("FAILED", "9:0")
