"""Two controllers with the same identity: a home is copied, and both are started. Each job runs once."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

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


class Jobs:
    """Jobs that record each start and run until their gate is open: two that run, and four that wait for them."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.gate, self.runs = folder / "gate", folder / "runs"
        self._folder = folder
        self.ids = [self.submit(home, node) for _ in range(3) for node in ("gpu1", "gpu2")]
        self.wait_for_starts(2)

    def submit(self, home: Home, node: str) -> int:
        """Submit a job that needs the whole node."""
        command = f"echo $SLURM_JOB_ID >>{self.runs}; while [ ! -e {self.gate} ]; do sleep 0.1; done"
        argv = ["submit", "--no-snapshot", "-w", node, "--gpus-per-node", "4", "--wrap", command]
        return int(home.json(*argv, cwd=self._folder)["job_id"])

    def starts(self) -> Counter[int]:
        return Counter(map(int, self.runs.read_text().split())) if self.runs.exists() else Counter()

    def wait_for_starts(self, count: int) -> None:
        eventually(
            lambda: self.starts().total() >= count,
            timeout_s=FOLLOW_S,
            what=f"{count} starts: {self.starts()}",
        )

    def check_each_runs_once(self, home: Home) -> None:
        """Open the gate, wait for the ends, and check that each job ran once and ended well."""
        assert max(self.starts().values()) == 1
        self.gate.touch()
        for job in self.ids:
            eventually(
                lambda job=job: home.job(job)["end"], timeout_s=FOLLOW_S, what=f"job {job}: {home.job(job)}"
            )
        assert [home.state(job) for job in self.ids] == ["COMPLETED"] * len(self.ids)
        assert self.starts() == Counter(self.ids)


@pytest.fixture
def copies() -> Iterator[list[Home]]:
    made: list[Home] = []
    yield made
    for each in made:
        each.close()


def copy(home: Home, copies: list[Home]) -> Home:
    """Copy the home, as a person does it: the database, the settings and the keys. The controller may run."""
    path = home.path.with_name(f"copy{len(copies)}")
    path.mkdir(mode=0o700)
    for name in home.path.iterdir():
        if name.is_file() and not name.name.startswith("state.db") and name.suffix != ".lock":
            shutil.copy2(name, path)
    with (
        closing(sqlite3.connect(home.path / "state.db")) as source,
        closing(sqlite3.connect(path / "state.db")) as target,
    ):
        source.backup(target)
    copies.append(Home(path, **{key: home.environ[key] for key in ("HOME", "SSH_AUTH_SOCK")}))
    return copies[-1]


def is_fenced(home: Home) -> bool:
    return bool(home.request("status")["fenced"])


def has_nodes(home: Home) -> bool:
    return not is_fenced(home) and all(
        home.node(name)["state"] in ("idle", "mixed", "allocated") for name in ("gpu1", "gpu2")
    )


def up(home: Home) -> None:
    home.ok("up", "--no-local-node")


def test_the_copy_of_a_running_home_takes_the_nodes_and_fences_the_original(
    home: Home, copies: list[Home], short_tmp: Path
) -> None:
    jobs = Jobs(home, short_tmp)
    other = copy(home, copies)
    up(other)
    eventually(lambda: has_nodes(other), timeout_s=FOLLOW_S, what=f"the copy has the nodes: {other.log()}")
    eventually(lambda: is_fenced(home), timeout_s=FOLLOW_S, what=f"the original is fenced: {home.log()}")
    shown = home.ok("status")
    epoch = other.json("status")["epoch"]
    assert (
        f"pid {other.controller_pid()}" in shown
        and f"epoch {epoch};" in shown
        and "warpdeck takeover" in shown
    )
    assert "fenced" in home.log()
    for argv in (
        ("submit", "--wrap", "true"),
        ("cancel", str(jobs.ids[0])),
        ("node", "drain", "gpu1", "broken"),
    ):
        refused = home.run(*argv)
        assert refused.returncode and "This controller is fenced" in refused.stderr, (argv, refused)
    assert [row["id"] for row in home.json("queue")] == [row["id"] for row in other.json("queue")]
    jobs.check_each_runs_once(other)


def test_the_copy_of_a_stopped_home_is_refused_while_the_original_runs(
    home: Home, copies: list[Home], short_tmp: Path
) -> None:
    jobs = Jobs(home, short_tmp)
    home.ok("down")
    other = copy(home, copies)
    up(home)
    eventually(lambda: has_nodes(home), timeout_s=FOLLOW_S, what=f"the original has the nodes: {home.log()}")
    up(other)
    eventually(lambda: is_fenced(other), timeout_s=FOLLOW_S, what=f"the copy is fenced: {other.log()}")
    other.ok("down")
    for _ in range(3):  # Each start of a fenced controller would otherwise have a higher epoch than the last.
        up(other)
        assert is_fenced(other)
        other.ok("down")
    assert has_nodes(home)
    jobs.check_each_runs_once(home)


def test_of_two_controllers_that_start_at_the_same_time_none_repeats_a_job_and_a_person_decides(
    home: Home, copies: list[Home], short_tmp: Path
) -> None:
    jobs = Jobs(home, short_tmp)
    home.ok("down")
    other = copy(home, copies)
    jobs.gate.touch()
    argv = [sys.executable, "-m", "warpdeck.cli.main", "up", "--no-local-node"]
    for starting in [subprocess.Popen(argv, env=each.environ) for each in (home, other)]:
        assert starting.wait(timeout=FOLLOW_S) == 0
    eventually(
        lambda: is_fenced(home) or is_fenced(other), timeout_s=FOLLOW_S, what=f"{home.log()}\n{other.log()}"
    )
    loser, winner = (home, other) if is_fenced(home) else (other, home)
    taken = loser.json("takeover")
    assert taken["lost"] == [] and not is_fenced(loser)
    eventually(lambda: is_fenced(winner), timeout_s=FOLLOW_S, what=winner.log())
    # The winner may have run jobs meanwhile, which wait in the older database of the loser.
    eventually(lambda: not loser.json("recover")["needed"], timeout_s=FOLLOW_S, what=loser.log())
    jobs.check_each_runs_once(loser)


def test_a_takeover_goes_back_and_forth_without_loss(home: Home, copies: list[Home], short_tmp: Path) -> None:
    jobs = Jobs(home, short_tmp)
    other = copy(home, copies)
    up(other)
    eventually(lambda: is_fenced(home), timeout_s=FOLLOW_S, what=home.log())
    epochs = [other.json("status")["epoch"]]
    for taking, fenced in ((home, other), (other, home), (home, other)):
        epochs.append(taking.json("takeover")["epoch"])
        eventually(lambda fenced=fenced: is_fenced(fenced), timeout_s=FOLLOW_S, what=fenced.log())
    assert epochs == sorted(set(epochs))
    jobs.check_each_runs_once(home)


def test_an_agent_that_is_killed_still_refuses_the_stale_controller(
    home: Home, copies: list[Home], lab: Lab, short_tmp: Path
) -> None:
    jobs = Jobs(home, short_tmp)
    other = copy(home, copies)
    home.kill_controller()
    up(other)
    eventually(lambda: has_nodes(other), timeout_s=FOLLOW_S, what=other.log())
    other.kill_controller()
    for host in (1, 2):
        agents = lab.pids(host, "serve --dir")  # those of earlier tests, too, whose controllers were killed
        lab.on(host, "kill", "-9", *map(str, agents))
    up(home)
    eventually(lambda: is_fenced(home), timeout_s=FOLLOW_S, what=home.log())
    up(other)
    eventually(lambda: has_nodes(other), timeout_s=FOLLOW_S, what=other.log())
    jobs.check_each_runs_once(other)
