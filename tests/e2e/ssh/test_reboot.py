"""A host that loses its power and comes back: its jobs end as the site says, nothing runs twice, and it takes jobs again."""

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
"""Until a dead link is noticed, some 20 s, and two pauses between attempts."""
AGENTS = Path("/var/lib/warpdeck")
"""All hosts of the lab have one disk below this folder, and we see it too."""


@pytest.fixture
def home(lab: Lab, lab_home: Home) -> Iterator[Home]:
    """gpu1, which will lose its power, and gpu2, which will not. Host 1 is up again after the test."""
    for host in (1, 2):
        words = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
        lab_home.ok("node", "add", f"root@{lab.address(host)}", *words)
    yield lab_home


@contextmanager
def power_cut(lab: Lab, host: int) -> Iterator[None]:
    """The host is gone at once, and another boot of it is there at the end."""
    lab.sh("crash", str(host))
    try:
        yield
    finally:
        lab.sh("boot", str(host))


def submit(home: Home, folder: Path, node: str, command: str, *options: str) -> int:
    words = ["submit", "--no-snapshot", "-w", node, *options, "--wrap", command]
    return int(home.json(*words, cwd=folder)["job_id"])


def ended(home: Home, job: int) -> dict[str, Any]:
    eventually(lambda: home.job(job)["end"], timeout_s=BACK_S, what=f"job {job} ends: {home.job(job)}")
    return home.job(job)


def state(home: Home, name: str) -> str:
    return str(home.node(name)["state"])


def status_of(job: int) -> tuple[int, int] | None:
    """What the agents' tables hold of the job's end."""
    for path in AGENTS.glob(f"*/{TABLE}"):
        with path.open("rb") as table:
            for number in range(path.stat().st_size // RECORD_BYTES):
                record = LaunchRecord(table.fileno(), number)
                if record.key() == (job, 0) and record.status() is not None:
                    return record.status()
    return None


def test_jobs_of_a_host_that_lost_its_power_end_or_begin_again_and_others_go_on(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    gate, runs = short_tmp / "gate", short_tmp / "runs"
    tell = (
        f"echo $SLURM_JOB_ID:${{SLURM_RESTART_COUNT:-0}} >>{runs}; while [ ! -e {gate} ]; do sleep 0.1; done"
    )
    again = submit(home, short_tmp, "gpu1", tell, "--requeue")
    gang = submit(home, short_tmp, "gpu[1-2]", tell, "-N", "2", "--no-requeue")
    beside = submit(home, short_tmp, "gpu2", tell)
    eventually(lambda: runs.exists() and len(runs.read_text().split()) == 3, what="all run")
    with power_cut(lab, 1):
        states = {home.state(job) for job in (again, gang, beside)}
        assert states == {"RUNNING"}, "who does not answer may be running them"
    row = ended(home, gang)
    assert (row["state"], row["exit_cause"], row["restarts"]) == ("NODE_FAIL", "node_fail", 0)
    assert "gpu1 was rebooted" in home.json("show", str(gang))["message"]
    eventually(
        lambda: (home.state(again), home.job(again)["restarts"]) == ("RUNNING", 1),
        timeout_s=BACK_S,
        what=f"the one that may begins again: {home.job(again)}",
    )
    gate.touch()
    assert [ended(home, job)["state"] for job in (again, beside)] == ["COMPLETED", "COMPLETED"]
    assert sorted(runs.read_text().split()) == sorted(
        [f"{again}:0", f"{again}:1", f"{gang}:0", f"{beside}:0"]
    ), "nobody ran twice under one start"
    assert state(home, "gpu1") == "idle"
    assert ended(home, submit(home, short_tmp, "gpu1", "true"))["state"] == "COMPLETED"


def test_allocations_that_are_held_and_waited_for_see_a_reboot(home: Home, lab: Lab, short_tmp: Path) -> None:
    """The one that is held is told that its node is gone; the one that waits gets its turn on the node that comes back."""
    environ = {**home.environ, "PYTHONUNBUFFERED": "1"}
    salloc = [sys.executable, "-m", "warpdeck.slurm.runtime.entry", "salloc", "-w", "gpu1", "--gpus=4"]
    held, waits = short_tmp / "held", short_tmp / "waits"
    with held.open("w") as first, waits.open("w") as second:
        command = ["sh", "-c", "echo here; sleep 1000 & wait"]
        holder = subprocess.Popen([*salloc, *command], env=environ, cwd="/", stdout=first, stderr=first)
        eventually(lambda: "here" in held.read_text(), what="it is held")
        command = ["srun", "hostname"]
        waiter = subprocess.Popen([*salloc, *command], env=environ, cwd="/", stdout=second, stderr=second)
        eventually(lambda: "queued and waiting" in waits.read_text(), what="the other waits")
        with power_cut(lab, 1):
            eventually(lambda: state(home, "gpu1") == "down", timeout_s=BACK_S, what="the link is lost")
            assert (holder.poll(), waiter.poll()) == (None, None)
        assert waiter.wait(BACK_S) == 0
        assert "host1" in waits.read_text()
        eventually(
            lambda: "revoked. Reason: gpu1 was rebooted" in held.read_text(), what="who held it is told"
        )
        holder.terminate()
        holder.wait(60)


def test_an_end_that_was_written_before_the_power_went_is_told_after_it(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    gate, over = short_tmp / "gate", short_tmp / "over"
    command = f"while [ ! -e {gate} ]; do sleep 0.1; done; touch {over}; exit 9"
    job = submit(home, short_tmp, "gpu1", command, "--no-requeue")
    eventually(lambda: home.state(job) == "RUNNING", what="it runs")
    lab.sh("sshd", "1", "stop")
    eventually(lambda: state(home, "gpu1") == "down", what="the link is lost")
    gate.touch()
    eventually(lambda: lab.pids(1, str(gate)) == [], what="the job has ended")
    eventually(lambda: status_of(job) == (9, 0), what="its status is in the agent's table")
    with power_cut(lab, 1):
        assert home.state(job) == "RUNNING"
    row = ended(home, job)
    assert (row["state"], row["exit_code"]) == ("FAILED", "9:0")
