"""`warpdeck demo` shows a running cluster at once and leaves nothing behind, even if it is killed."""

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
    tmux = open_window(home, short_tmp, "demo")
    tmux.shows("● R")
    return tmux


def open_window(home: Home, short_tmp: Path, verb: str) -> Tmux:
    """Open the command in a window. Its folder is created below the test's folder."""
    environ = {"TMPDIR": str(short_tmp)}
    return Tmux(short_tmp / "tmux", home, size=(120, 40), environ=environ, verb=verb)


def assert_nothing_left(short_tmp: Path) -> None:
    eventually(lambda: not list(short_tmp.glob("warpdeck-demo-*")), what="the demo's folder is removed")
    eventually(
        lambda: not [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_demo(pid, short_tmp)],
        what="the demo's process has ended",
    )


def _is_demo(pid: str, short_tmp: Path) -> bool:
    try:
        cmdline = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"warpdeck.sim.demo" in cmdline and str(short_tmp).encode() in cmdline


def test_the_demo_shows_a_busy_cluster(demo: Tmux, short_tmp: Path) -> None:
    for text in ("all jobs", "● R", "◌ PD", "lr-sweep", "interactive", "✓ CD", "held"):
        demo.shows(text)
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
    assert_nothing_left(short_tmp)
    demo.close()


def test_jobs_can_be_submitted_in_the_demo(demo: Tmux, short_tmp: Path) -> None:
    demo.keys("n")
    demo.shows("or command")
    demo.keys("Tab")
    demo.type("python train.py")
    demo.keys("Enter")
    demo.shows("Submitted job")
    demo.keys("q")
    demo.shows("left with 0")
    assert_nothing_left(short_tmp)
    demo.close()


def test_the_demo_has_a_simulated_shell(demo: Tmux, short_tmp: Path) -> None:
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
    assert_nothing_left(short_tmp)
    demo.close()


def test_the_demo_accepts_the_options_of_the_app(home: Home, short_tmp: Path) -> None:
    demo = open_window(home, short_tmp, "demo --ascii --readonly --theme deck-light")
    demo.shows("* R")
    demo.shows("l Log  u Mine/all  / Filter")  # The key for new jobs is not listed.
    demo.close()
    assert_nothing_left(short_tmp)


@pytest.mark.parametrize("kill_app", [True, False], ids=["the app", "its guard"])
def test_the_simulated_cluster_ends_with_a_killed_app(demo: Tmux, short_tmp: Path, kill_app: bool) -> None:
    os.kill(demo.app_pid() if kill_app else demo.pid(), signal.SIGKILL)
    if kill_app:
        demo.shows("left with 137")
    assert_nothing_left(short_tmp)
    demo.close()


def test_the_demo_prints_a_message_until_it_opens(home: Home) -> None:
    terminal = AtTerminal(home, "demo")
    try:
        waiting = terminal.until("\x1b[?1049h")
        assert waiting.index("starting a simulated cluster") < waiting.index("\r\x1b[K")
        terminal.until("NODELIST(REASON)")
    finally:
        terminal.process.terminate()
        terminal.ended()
        terminal.close()


def test_the_start_of_the_demo_shows_its_progress(home: Home, short_tmp: Path) -> None:
    home.environ["TMPDIR"] = str(short_tmp)
    terminal = AtTerminal(home, "demo")
    try:
        terminal.until("two hours of history ... ")
        terminal.until(" %")
        terminal.until("\x1b[?1049h")  # the app
    finally:
        terminal.close()
    assert_nothing_left(short_tmp)
