"""`warpdeck demo`: a live cluster at once, and nothing left behind, however it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.e2e.app.test_tui_tmux import Tmux
from tests.support.home import Home
from tests.support.terminal import AtTerminal
from tests.support.waiting import eventually

pytestmark = pytest.mark.tmux


@pytest.fixture
def demo(home: Home, short_tmp: Path) -> Tmux:
    """The demo in a window."""
    made = opened(home, short_tmp, "demo")
    made.shows("● R")
    return made


def opened(home: Home, short_tmp: Path, verb: str) -> Tmux:
    """Its folder is made below the test's."""
    environ = {"TMPDIR": str(short_tmp)}
    return Tmux(short_tmp / "tmux", home, size=(120, 40), environ=environ, verb=verb)


def leaves_nothing(short_tmp: Path) -> None:
    eventually(lambda: not list(short_tmp.glob("warpdeck-demo-*")), what="its folder is gone")
    eventually(
        lambda: not [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_demo(pid, short_tmp)],
        what="its process is gone",
    )


def _is_demo(pid: str, short_tmp: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"warpdeck.sim.demo" in words and str(short_tmp).encode() in words


def test_it_shows_a_lab_at_work(demo: Tmux, short_tmp: Path) -> None:
    for words in ("all jobs", "● R", "◌ PD", "lr-sweep", "interactive", "✓ CD", "held"):
        demo.shows(words)
    demo.keys("2")
    demo.shows("64 GPUs allocated, 1 blocked")
    demo.shows("drained")
    demo.keys("1")
    demo.keys("Enter")
    demo.shows("job ")
    demo.keys("6")
    demo.keys("BTab")
    demo.shows("replay past jobs with more GPUs")
    demo.keys("w")
    demo.shows("--add-gpus 8")
    demo.keys("Enter")
    demo.shows("jobs: ")
    demo.keys("q")
    demo.shows("left with 0")
    leaves_nothing(short_tmp)
    demo.close()


def test_who_looks_at_it_may_submit_jobs_there(demo: Tmux, short_tmp: Path) -> None:
    demo.keys("n")
    demo.shows("or command")
    demo.keys("Tab", "Tab")
    demo.type("python train.py")
    demo.keys("Enter")
    demo.shows("Submitted job")
    demo.keys("q")
    demo.shows("left with 0")
    leaves_nothing(short_tmp)
    demo.close()


def test_its_shell_is_one_to_try(demo: Tmux, short_tmp: Path) -> None:
    demo.keys("/")
    demo.type("interactive")
    demo.shows("1 match interactive")
    demo.keys("Enter")
    demo.keys("a")
    demo.shows("a simulated shell")
    demo.type("hostname")
    demo.keys("Enter")
    demo.shows("hostname\n")
    demo.keys("Enter")
    demo.type("~d")
    demo.shows("Detached from job")
    demo.keys("q")
    demo.shows("left with 0")
    leaves_nothing(short_tmp)
    demo.close()


def test_it_takes_the_apps_options_and_a_closed_window_ends_it(home: Home, short_tmp: Path) -> None:
    demo = opened(home, short_tmp, "demo --ascii --readonly --theme deck-light")
    demo.shows("* R")
    demo.shows("l Log  u Mine/all  / Filter")  # and no New
    demo.close()
    leaves_nothing(short_tmp)


@pytest.mark.parametrize("guarded", [True, False], ids=["the app", "its guard"])
def test_a_killed_app_takes_its_cluster_along(demo: Tmux, short_tmp: Path, guarded: bool) -> None:
    os.kill(demo.app_pid() if guarded else demo.pid(), signal.SIGKILL)
    if guarded:
        demo.shows("left with 137")
    leaves_nothing(short_tmp)
    demo.close()


def test_who_waits_for_it_is_told_so_until_it_opens(home: Home) -> None:
    terminal = AtTerminal(home, "demo")
    try:
        waiting = terminal.until("\x1b[?1049h")
        assert waiting.index("starting a simulated cluster") < waiting.index("\r\x1b[K")
        terminal.until("NODELIST(REASON)")
    finally:
        terminal.process.terminate()
        terminal.ended()
        terminal.close()
