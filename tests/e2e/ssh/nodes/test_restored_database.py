"""An older state.db is restored: jobs submitted since continue, are adopted, and their ids are not given again."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
FOLLOW_S = 60.0


@pytest.fixture
def home(lab: Lab, lab_home: Home) -> Home:
    """A home with the nodes gpu1 and gpu2."""
    for host in (1, 2):
        argv = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
        lab_home.ok("node", "add", f"root@{lab.address(host)}", *argv)
    return lab_home


class Site:
    """A home whose database can be copied and put back, and jobs that count their starts."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.gate, self.runs = folder / "gate", folder / "runs"

    def submit(self, node: str, end: str, *options: str) -> int:
        """Submit a job that records its start and then runs `end`."""
        argv = [
            "submit",
            "--no-snapshot",
            "-w",
            node,
            *options,
            "--wrap",
            f"echo $SLURM_JOB_ID >>{self.runs}; {end}",
        ]
        return int(self.home.json(*argv, cwd=self.folder)["job_id"])

    def gated(self, node: str, *options: str) -> int:
        return self.submit(node, f"while [ ! -e {self.gate} ]; do sleep 0.1; done", *options)

    def starts(self) -> Counter[int]:
        return Counter(map(int, self.runs.read_text().split())) if self.runs.exists() else Counter()

    def backup(self) -> Path:
        path = self.folder / "backup.db"
        with (
            closing(sqlite3.connect(self.home.path / "state.db")) as source,
            closing(sqlite3.connect(path)) as target,
        ):
            source.backup(target)
        return path

    def restore(self, backup: Path) -> None:
        """Put the older database into the place of the present one, and start the controller."""
        self.home.ok("down")
        for suffix in ("", "-wal", "-shm"):
            (self.home.path / f"state.db{suffix}").unlink(missing_ok=True)
        (self.home.path / "state.db").write_bytes(backup.read_bytes())
        self.home.ok("up", "--no-local-node")

    def wait_for_end(self, job: int) -> dict[str, Any]:
        eventually(lambda: self.home.job(job)["end"], timeout_s=FOLLOW_S, what=f"{self.home.job(job)}")
        return self.home.job(job)

    def wait_for_need(self) -> None:
        eventually(
            lambda: self.home.request("status")["recovery"],
            timeout_s=FOLLOW_S,
            what=f"a need: {self.home.log()}",
        )

    def unknown(self) -> dict[int, tuple[str, str]]:
        """Return state and action of the unknown jobs, once both nodes have answered."""
        for name in ("gpu1", "gpu2"):
            eventually(lambda name=name: self.home.node(name)["state"] != "down", what=f"{name} answers")
        rows = self.home.json("recover", "--dry-run")["jobs"]
        return {row["job"]: (row["state"], row["action"]) for row in rows}


def test_jobs_submitted_since_the_backup_are_adopted_and_run_once(home: Home, short_tmp: Path) -> None:
    site = Site(home, short_tmp)
    first = site.submit("gpu1", "true")
    site.wait_for_end(first)
    backup = site.backup()
    running = [
        site.gated("gpu1", "--gpus-per-node", "1"),
        site.gated("gpu2", "-o", str(short_tmp / "own.out")),
    ]
    ended = site.submit("gpu2", "exit 3")
    site.wait_for_end(ended)
    named = site.gated("gpu1", "--job-name", "named")
    array = site.gated("gpu2", "--array", "1")
    eventually(lambda: site.starts().total() == 6, timeout_s=FOLLOW_S, what=f"{site.starts()}")
    site.restore(backup)
    site.wait_for_need()
    expected = dict.fromkeys((*running, named, array), ("running", "adopt")) | {ended: ("forgotten", "adopt")}
    eventually(lambda: site.unknown() == expected, timeout_s=FOLLOW_S, what=f"{site.unknown()}")
    shown = home.ok("status")
    assert "The database is older than 5 jobs on the nodes" in shown and "warpdeck recover" in shown
    waiting = site.submit("gpu1", "true", "--gpus-per-node", "4")
    assert waiting > max(expected), "an id of a running job was given again"
    home.ok("down")
    home.ok("up", "--no-local-node")
    assert home.request("status")["recovery"], "the need is durable"
    eventually(lambda: site.unknown() == expected, timeout_s=FOLLOW_S, what=f"{site.unknown()}")
    found = home.json("recover")
    assert not found["needed"] and {row["action"] for row in found["jobs"]} == {"adopt"}
    eventually(
        lambda: home.job(waiting)["why"]["code"] == "Resources",
        timeout_s=FOLLOW_S,
        what=f"{home.job(waiting)}",
    )
    site.gate.touch()
    site.wait_for_end(waiting)
    rows = {job: site.wait_for_end(job) for job in expected}
    assert {job: row["exit_code"] for job, row in rows.items()} == {
        **dict.fromkeys((*running, named, array), "0:0"), ended: "3:0"
    }  # fmt: skip
    assert {row["user"] for row in rows.values()} == {"root"} and rows[running[0]]["gpus"] == 1
    assert rows[named]["name"] == "named"
    assert site.starts() == Counter([first, *expected, waiting])
    assert site.submit("gpu1", "true") > waiting


def test_a_waiting_job_that_has_run_since_the_backup_does_not_run_again(home: Home, short_tmp: Path) -> None:
    site = Site(home, short_tmp)
    holder = site.gated("gpu1", "--gpus-per-node", "4")
    waiting = site.submit("gpu1", "exit 4", "--gpus-per-node", "4")
    eventually(lambda: site.starts() == Counter([holder]), what="the first job runs")
    backup = site.backup()
    site.gate.touch()
    assert site.wait_for_end(waiting)["exit_code"] == "4:0"
    site.restore(backup)
    site.wait_for_need()
    assert not home.json("recover")["needed"]
    assert [site.wait_for_end(job)["exit_code"] for job in (holder, waiting)] == ["0:0", "4:0"]
    assert site.starts() == Counter([holder, waiting])


def test_unknown_jobs_end_if_they_are_discarded(home: Home, short_tmp: Path) -> None:
    site = Site(home, short_tmp)
    backup = site.backup()
    job = site.gated("gpu1", "--gpus-per-node", "4")
    eventually(lambda: site.starts() == Counter([job]), what="the job runs")
    site.restore(backup)
    site.wait_for_need()
    refused = home.run("recover", "--discard", "x")
    assert refused.returncode == 2 and "x is not a job id" in refused.stderr
    assert [row["action"] for row in home.json("recover", "--discard", str(job))["jobs"]] == ["discard"]
    after = site.submit("gpu1", "true", "--gpus-per-node", "4")
    assert site.wait_for_end(after)["exit_code"] == "0:0" and after > job


def test_a_database_from_before_the_last_start_is_fenced_until_a_person_takes_over(
    home: Home, short_tmp: Path
) -> None:
    site = Site(home, short_tmp)
    backup = site.backup()
    for _ in range(2):
        home.ok("down")
        home.ok("up", "--no-local-node")
    job = site.gated("gpu2")
    eventually(lambda: site.starts() == Counter([job]), timeout_s=FOLLOW_S, what="the job runs")
    site.restore(backup)
    eventually(lambda: home.request("status")["fenced"], timeout_s=FOLLOW_S, what=home.log())
    home.ok("takeover")
    site.wait_for_need()
    home.ok("recover")
    site.gate.touch()
    assert site.wait_for_end(job)["exit_code"] == "0:0"
    assert site.starts() == Counter([job])
