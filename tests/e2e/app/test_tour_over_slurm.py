"""A tour of the app over a real Slurm of each version, in tmux: every screen, every key, and each change in Slurm."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.app.test_tui_tmux import Tmux
from tests.slurm_parity.peer.real_slurm import PACKAGES, SUITES, VERSIONS, RealSlurm
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck.engines.slurm.capabilities import IMPOSSIBLE
from warpdeck_tui.screens.site_tabs import USED_WITH
from warpdeck_tui.table.actions import Action
from warpdeck_tui.table.actions.requests import requests_of
from warpdeck_tui.table.bindings import actions_at

pytestmark = [pytest.mark.slurm, pytest.mark.tmux]
TESTED = ("22.05", "26.05") if os.environ.get("CI") else VERSIONS
SIZE = (120, 40)
COLORS = {"TERM": "xterm-256color", "COLORTERM": ""}
ESCAPE = "\x1b[27u"
"""The key Escape in the form that no following key can change into Alt and this key."""
KEY_NAMES = {
    "escape": "Escape",
    "tab": "Tab",
    "shift+tab": "BTab",
    "enter": "Enter",
    "space": "Space",
    "pagedown": "NPage",
    "pageup": "PPage",
    "down": "Down",
    "up": "Up",
    "left": "Left",
    "right": "Right",
    "home": "Home",
    "end": "End",
    "question_mark": "?",
    "slash": "/",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "full_stop": ".",
    "colon": ":",
    "equals_sign": "=",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "ampersand": "&",
    "plus": "+",
    "minus": "-",
    "at": "@",
    "tilde": "~",
}
"""tmux's names of keys."""
LEAVES = {"quit", "suspend_process", "shell"}
"""Actions that leave the app, which have tests of their own."""


class Screen(NamedTuple):
    """A screen: the contexts of its keys, the keys that open it from the queue, and a pattern that only it shows."""

    places: tuple[str, ...]
    keys: tuple[str, ...]
    mark: str
    table: str = ""


QUEUE = Screen(("queue", "list", "app", "moves"), (), "╭─.*(all jobs|jobs of ).* running, ")
SESSIONS = Screen(("sessions",), ("5",), " forwarded ports ")
OVERVIEW = Screen(("overview",), ("0",), "GPUs, last ")
NODES = Screen(("nodes", "grid"), ("2",), r"╭─.* \d+ nodes, \d+ of ")
NODE = Screen(("node",), ("2", "p"), "╭─.*node n")
HISTORY = Screen(("history",), ("4",), "╭─.*history: ")
RUNS = Screen(("runs",), ("4", "B"), "╭─.*Runs of ")
JOB = Screen(("job", "log"), ("3", "l"), r"\[Log\]")
SITE = Screen(("admin",), ("6",), "╭─.*site: ", "partitions")
SCREENS = {
    "queue": QUEUE,
    "overview": OVERVIEW,
    "sessions": SESSIONS,
    "nodes": NODES,
    "node": NODE,
    "history": HISTORY,
    "runs": RUNS,
    "job": JOB,
    "site": SITE,
}
PANES = {"l": "[Log]", "m": "[Metrics]", "d": "[Details]", "p": "[GPUs]", "s": "[Code]", "e": "[Events]"}
TABLES = ("Partitions", "Reservations", "QoS", "Shares", "Priorities", "Drains", "Events", "What if")
FIELDS = ("n3", "now+2hours", "1:00:00", "root")
"""Nodes, start, duration and users of a reservation."""


def reason(action: Action, table: str = "") -> str:
    """Return why Slurm, or this table of the site, cannot do the action, or ""."""
    if table and action.where == "admin" and table not in USED_WITH.get(action.id, (table,)):
        return "This key works in "
    tags = requests_of(action.where, action.id, table if action.id in ("new", "change", "remove") else "")
    return next((IMPOSSIBLE[tag] for tag in IMPOSSIBLE if tag in tags), "")


class Tour:
    """The app over a Slurm with jobs of every kind."""

    def __init__(self, slurm: RealSlurm, home: Home, folder: Path) -> None:
        self.slurm, self.home, self.folder = slurm, home, folder
        self.window = Tmux(folder / "tmux", home, size=SIZE, environ=COLORS, verb="--engine slurm")

    def submit(self, *options: str) -> str:
        """Submit a job with Slurm's own sbatch, and return its id."""
        done = self.slurm.run(["sbatch", "--parsable", *options], cwd=self.folder)
        assert done.rc == 0, done.err
        return done.out.strip()

    def state(self, job: str) -> str:
        """Return the state and the reason of the job in Slurm."""
        text = self.slurm.ok("scontrol", "show", "job", job)
        return " ".join(re.findall(r"(?:JobState|Reason)=(\S+)", text)[:2])

    def becomes(self, job: str, text: str) -> None:
        """Wait until the job's state and reason begin with this text."""
        eventually(lambda: self.state(job).startswith(text), what=f"job {job} is {text}")

    def escape(self) -> None:
        for _ in range(3):
            self.window.type(ESCAPE)

    def go(self, screen: Screen) -> None:
        """Close all dialogs and open the screen. A dialog that a slow answer opens late is closed, too."""
        self._reach(SESSIONS.mark, "5")
        self._reach(QUEUE.mark, "1")
        for key in screen.keys:
            self.window.keys(key)
        self.window.until(lambda: self.is_at(screen.mark), screen.mark)

    def is_at(self, mark: str) -> bool:
        return re.search(mark, self.window.screen()) is not None

    def _reach(self, mark: str, key: str) -> None:
        def arrives() -> bool:
            self.escape()
            self.window.keys(key)
            try:
                eventually(lambda: self.is_at(mark), timeout_s=3, what=mark)
            except AssertionError:
                return False
            return True

        self.window.until(arrives, f"the screen of key {key}")

    def select(self, job: str, name: str) -> None:
        """Move the queue's cursor to the job by a filter for its name."""
        self.go(QUEUE)
        self.window.keys("/")
        self.window.type(name)
        self.window.keys("Enter")
        self.window.shows(f"▌ {job} ")

    def settled(self) -> str:
        """Wait until the screen is the same twice, and return it."""
        seen = [self.window.screen()]

        def rests() -> bool:
            seen.append(self.window.screen())
            return seen[-1] == seen[-2]

        eventually(rests, what="the screen rests")
        return seen[-1]

    def check(self) -> None:
        """Assert that the app runs and that neither it nor the gateway met a bug."""
        assert "Traceback" not in self.window.screen("-S", "-")
        log = self.home.path / "gateway.log"
        assert "Traceback" not in (log.read_text())


@pytest.fixture(scope="module", params=TESTED)
def tour(request: pytest.FixtureRequest) -> Iterator[Tour]:
    """The app over a Slurm of this version with jobs in every state, and a drained node."""
    suite = SUITES.get(request.param, "")
    assert not suite or Path(f"{PACKAGES}-{suite}/root").is_dir(), "run tests/setup.sh"
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    with RealSlurm(version=request.param, accounting=not suite) as slurm:
        home = Home(folder / "home", **slurm.wrappers(folder / "bin"))
        home.environ |= {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("STATE", "CONFIG", "CACHE")}
        home.path.mkdir()
        often = "requests_per_minute = 6000\nidle_requests_per_minute = 6000"
        (home.path / "config.toml").write_text(f'[slurm]\nfolder = "{folder}/shared"\n{often}\n')
        made = Tour(slurm, home, folder)
        try:
            populate(made)
            made.window.shows("drained 1: n4")
            yield made
        finally:
            made.window.close()
            home.close()
            shutil.rmtree(folder, ignore_errors=True)


def populate(tour: Tour) -> None:
    """Submit jobs of every kind, and drain a node."""
    tour.slurm.ok("scontrol", "update", "nodename=n4", "state=drain", "reason=bad fan")
    step = "while true; do i=$((i+1)); echo step $i loss=0.$i; sleep 1; done"
    tour.submit("--gres=gpu:2", "-Jtrain", "--wrap", step)
    tour.submit("--array=1-4%2", "--gres=gpu:1", "-Jsweep", "--wrap", "echo a task; sleep 900")
    tour.submit("-Jfails", "--wrap", "echo boom; exit 3")
    tour.submit("--hold", "-Jheld", "--wrap", "true")
    tour.submit("--nice=9000", "--gres=gpu:4", "-N4", "-Jbig", "--wrap", "true")


def test_slurm_is_named_with_its_version_and_the_age_of_the_picture(
    tour: Tour, request: pytest.FixtureRequest
) -> None:
    tour.go(QUEUE)
    version = request.node.callspec.params["tour"]
    tour.window.shows(f" Slurm {version} · warpdeck ")
    tour.window.shows(" requests/min")
    tour.check()


def test_every_pane_of_a_job_has_content(tour: Tour) -> None:
    tour.select("1", "train")
    tour.window.keys("l")
    for key, title in PANES.items():
        tour.window.keys(key)
        tour.window.shows(title)
    tour.window.keys("l")
    tour.window.shows("step 1 loss=0.1")
    tour.window.keys("d")
    tour.window.shows(str(tour.folder / "slurm-1.out"))
    tour.window.keys("p")
    tour.window.shows("2 GPUs on 1 node")
    tour.window.keys("s")
    tour.window.shows("No snapshot")
    tour.window.keys("e")
    tour.window.shows("started on n")
    tour.check()


def test_every_table_of_the_site_is_shown(tour: Tour) -> None:
    tour.go(SITE)
    for title in TABLES[1:]:
        tour.window.keys("Tab")
        tour.window.shows(f"site: {title.lower()} ")
    tour.check()


@pytest.mark.parametrize("name", SCREENS)
def test_every_key_works_or_tells_why_not(tour: Tour, name: str) -> None:
    """Keys that change something are pressed here only if Slurm cannot do their action."""
    screen = SCREENS[name]
    tour.go(screen)
    for action in actions_at(*screen.places):
        if action.id in LEAVES:
            continue
        key = KEY_NAMES.get(first := action.keys.partition(",")[0], first.replace("ctrl+", "C-"))
        told = reason(action, screen.table)
        if told:
            notice = f"▌ {told[:1].upper()}{told[1:24]}"
            tour.window.hides(notice)
            tour.window.keys(key)
            tour.window.shows(notice)
        elif not action.changes:
            tour.window.keys(key)
            tour.settled()
            tour.go(screen)
    tour.check()


def press(tour: Tour, key: str, command: str = "") -> None:
    """Press the key, and confirm the command that its dialog shows."""
    tour.window.keys(key)
    if command:
        tour.window.shows(f"$ {command}")
        tour.window.keys("Enter")


@pytest.mark.parametrize("opens", ["", "l"], ids=["queue", "job page"])
def test_changes_of_a_job_take_effect(tour: Tour, opens: str) -> None:
    name = f"subject{opens}"
    job = tour.submit("--begin=now+1hour", f"-J{name}", "--requeue", "--wrap", "sleep 900")

    def select() -> None:
        tour.select(job, name)
        if opens:
            tour.window.keys(opens)
            tour.window.shows(f"job {job}  {name} ")

    def answer(key: str, text: str, field: str) -> None:
        select()
        tour.window.keys(key)
        tour.window.shows(f"$ scontrol update JobId={job} ")
        tour.window.keys("C-u")
        tour.window.type(text)
        tour.window.keys("Enter")

        def is_set() -> bool:
            return field in tour.slurm.ok("scontrol", "show", "job", job)

        eventually(is_set, what=f"{field} of job {job}")

    answer("L", "20:00", "TimeLimit=00:20:00")
    answer("P", "nice=77", "Nice=77")
    select()
    press(tour, "H")
    tour.becomes(job, "PENDING JobHeld")
    select()
    tour.window.shows("why held" if not opens else "held")
    press(tour, "U")
    tour.becomes(job, "PENDING BeginTime")
    tour.slurm.ok("scontrol", "update", f"JobId={job}", "StartTime=now")
    tour.becomes(job, "RUNNING")
    select()
    running = "RUNNING" if opens else rf"▌ {job} +● R "
    tour.window.until(lambda: tour.is_at(running), f"job {job} running")
    press(tour, "R", f"warpdeck requeue {job}")
    tour.becomes(job, "PENDING")
    select()
    press(tour, "c", f"warpdeck cancel {job}")
    tour.becomes(job, "CANCELLED")
    tour.check()


def test_a_node_is_drained_and_resumed(tour: Tour) -> None:
    def node_state() -> str:
        return tour.slurm.ok("sinfo", "-h", "-n", "n1", "-p", "gpu", "-o", "%T %E").strip()

    tour.go(NODES)
    tour.window.keys("d")
    tour.window.shows("Reason for draining n1")
    tour.window.type("hot fan")
    tour.window.keys("Enter")
    eventually(lambda: node_state() in ("draining hot fan", "drained hot fan"), what="n1 is drained")
    tour.go(NODE)
    tour.window.shows("hot fan")
    press(tour, "d", "warpdeck node resume n1")
    eventually(lambda: "drain" not in node_state(), what="n1 is resumed")
    tour.check()


def test_the_form_submits_to_slurm_and_the_job_runs_again(tour: Tour) -> None:
    (tour.folder / "job.sh").write_text("#!/bin/sh\n#SBATCH -J formed\necho from the form; exit 4\n")
    tour.go(QUEUE)
    tour.window.keys("n")
    tour.window.shows("job.sh, the only script of the folder")
    tour.window.keys("Enter")

    def ids() -> list[str]:
        found = tour.slurm.ok("squeue", "-h", "-t", "all", "-n", "formed", "-o", "%i").split()
        return sorted(found, key=int)

    [job] = eventually(ids, what="the job of the form")
    tour.becomes(job, "FAILED")
    tour.select(job, "formed")
    tour.window.keys("l")
    tour.window.shows("from the form")
    tour.window.keys("A")
    tour.window.shows(f"$ warpdeck rerun {job}")
    tour.window.keys("y")
    again = eventually(lambda: ids()[1:], what="the job runs again")[0]
    tour.becomes(again, "FAILED")
    tour.check()


def test_a_shell_survives_that_it_is_left(tour: Tour) -> None:
    """The shell is opened, left, attached again and ended. A shell that waits is left, and canceled."""
    tour.go(QUEUE)
    press(tour, "i", "warpdeck run --pty ")
    tour.window.shows("to detach: press Enter")
    tour.window.type("echo sum-$((40+2))")
    tour.window.keys("Enter")
    tour.window.shows("sum-42")
    tour.window.keys("Enter")
    tour.window.type("~d")
    tour.window.shows("Detached from job ")
    tour.go(SESSIONS)
    tour.window.shows("● R")
    tour.window.keys("a")
    tour.window.shows("sum-42")
    tour.window.type("exit")
    tour.window.keys("Enter")
    tour.window.shows("has ended")
    tour.slurm.ok("scontrol", "update", "partitionname=gpu", "state=down")
    tour.go(QUEUE)
    press(tour, "i", "warpdeck run --pty ")
    tour.window.shows("its partition is down")
    tour.window.type(ESCAPE)
    tour.window.shows("keeps waiting")
    tour.go(SESSIONS)
    tour.window.shows("interactive")
    press(tour, "c", "warpdeck cancel ")
    tour.window.shows("No sessions")
    tour.slurm.ok("scontrol", "update", "partitionname=gpu", "state=up")
    tour.check()


def test_a_reservation_is_made_and_removed(tour: Tour) -> None:
    def names() -> str:
        return tour.slurm.run(["scontrol", "-o", "show", "reservation"]).out

    tour.go(SITE)
    tour.window.keys("Tab")
    tour.window.shows("site: reservations ")
    tour.window.keys("n")
    tour.window.shows("Enter Save")
    tour.window.type("toured")
    for text in FIELDS:
        tour.window.keys("Tab")
        tour.window.keys("C-u")
        tour.window.type(text)
    tour.window.keys("Enter")
    eventually(lambda: "ReservationName=toured" in names(), what="the reservation")
    tour.window.shows("▌toured")
    press(tour, "X", "warpdeck reservation rm toured")
    eventually(lambda: "toured" not in names(), what="the reservation is removed")
    tour.check()


def test_the_app_ends_without_an_error(tour: Tour) -> None:
    tour.go(QUEUE)
    tour.window.keys("q")
    tour.window.shows("left with 0")
    tour.window.has_sane_terminal()
    tour.check()
