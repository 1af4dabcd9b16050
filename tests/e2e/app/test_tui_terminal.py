"""The app in a real terminal: killed, stopped, resized, pasted into, without focus, and the state of the
terminal afterwards.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.app.test_tui_tmux import Tmux
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.tmux

SUM_COMMAND = "sum-$((40+2))"


@pytest.fixture(scope="module")
def shell() -> Iterator[Tmux]:
    """An interactive shell with the demo."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder:
        home = Home(Path(folder) / "home")
        tmux = Tmux(Path(folder) / "tmux", home, size=(100, 30), environ={}, verb="demo", by_hand=True)
        tmux.shows("$")
        yield tmux
        tmux.close()


@pytest.fixture
def window(shell: Tmux) -> Tmux:
    """The window with the queue shown. The app is started again if the previous test has ended it."""
    if "q Quit" not in shell.screen():
        shell.pid_file.unlink(missing_ok=True)
        shell.type(f"clear; {shell.app}")
        shell.keys("Enter")
    shell.shows("● R")
    return shell


def assert_shell_works(window: Tmux) -> None:
    """Assert that lines are edited and echoed and that the alternate screen is gone."""
    window.type(f"echo {SUM_COMMAND}; stty -a")
    window.shows(f"$ echo {SUM_COMMAND}")
    window.keys("Enter")
    window.shows("sum-42")
    window.has_sane_terminal()


def test_the_app_survives_any_window_size(window: Tmux) -> None:
    for cols, rows in ((20, 5), (4, 2), (1, 1), (100, 30)):
        window.resize(cols, rows)
        for key in ("2", "1", "?", "Escape", "n", "Escape", "Enter", "Escape"):
            window.keys(key)
    window.shows("● R")
    window.shows("q Quit")


PASTED = "qcyHRU Zn\nyes\rq"


def test_pasted_text_triggers_no_keys(window: Tmux) -> None:
    window.paste(PASTED)
    window.keys("2")
    window.shows("utilization: low")
    window.paste(PASTED)
    window.keys("1")
    window.hides("utilization: low")
    window.keys("Enter")
    window.shows("[Log]")
    window.paste(PASTED)
    window.keys("Escape")
    window.hides("[Log]")
    window.keys("/")
    window.paste("qcyHRU")
    window.shows("match qcyHRU")
    window.keys("Escape")
    window.hides("match")
    window.keys(":")
    window.paste("usag")
    window.shows("usag")
    window.keys("Escape")
    window.hides("usag")


def test_a_key_right_after_escape_is_a_separate_key(window: Tmux) -> None:
    window.keys("Enter")
    window.shows("[Log]")
    window.sends("1b", "32")
    window.shows("utilization: low")
    window.keys(":")
    window.type("usag")
    window.shows("usag")
    window.sends("1b", "31")
    window.shows("all jobs")


PASTE_LENGTH = 10_000


def test_a_paste_of_ten_thousand_characters_is_inserted_as_text(window: Tmux) -> None:
    window.keys("/")
    window.paste("q" * PASTE_LENGTH)
    window.shows("No jobs match the filter")
    window.keys("Escape")
    window.shows("● R")
    window.keys("n")
    window.shows("Enter Submit")
    window.keys("Tab", "Tab")  # Move from the script to the command.
    window.paste("y" * PASTE_LENGTH + "END")
    window.shows("yyyEND")
    window.shows("or command")
    window.shows("Enter Submit")
    window.keys("Escape")
    window.hides("Enter Submit")
    window.keys("2")
    window.shows("utilization: low")
    window.keys("1")
    window.hides("utilization: low")


def test_the_key_m_toggles_the_mouse_between_app_and_terminal(window: Tmux) -> None:
    def app_has_mouse() -> bool:
        return window.run("display-message", "-p", "#{mouse_any_flag}").strip() == "1"

    eventually(app_has_mouse, what="clicks go to the app")
    window.keys("M")
    window.shows("The terminal uses the mouse")
    eventually(lambda: not app_has_mouse(), what="clicks go to the terminal, to select and copy")
    window.keys("M")
    eventually(app_has_mouse, what="clicks go to the app again")


TRUE_COLOR = re.compile(r"\x1b\[[0-9;]*[34]8[;:]2[;:]")


@pytest.mark.parametrize(
    ("environ", "running_sign", "has_true_color"),
    [("TERM=linux COLORTERM=", "* R", False), ("TERM=tmux-256color COLORTERM=truecolor", "● R", True)],
    ids=["TERM=linux", "truecolor"],
)
def test_signs_and_colors_match_the_terminal(
    window: Tmux, environ: str, running_sign: str, has_true_color: bool
) -> None:
    window.keys("q")
    window.hides("q Quit")
    window.type(f"clear; {environ} {window.app}")
    window.keys("Enter")
    window.shows(running_sign)
    window.keys("2")
    window.shows("utilization: low")
    assert bool(TRUE_COLOR.search(window.screen("-e"))) is has_true_color
    window.keys("1", "Enter")
    window.shows("[Log]")
    window.keys("Escape")
    window.hides("[Log]")
    window.keys("q")
    window.hides("q Quit")
    assert_shell_works(window)


def test_screen_updates_slow_down_without_focus(window: Tmux) -> None:
    """tmux reports the focus only if its user enables it, so only the test sends focus events here."""
    window.keys("2")
    window.shows("utilization: low")
    before = window.screen()
    eventually(lambda: window.screen() != before, what="the values change")
    window.sends("1b", "5b", "4f")
    last_screen = window.screen()
    eventually(lambda: window.screen() != last_screen, what="values still change, less often")
    window.sends("1b", "5b", "49")
    window.keys("1")
    window.shows("● R")


def test_the_app_stops_and_continues_with_job_control(window: Tmux) -> None:
    app = window.app_pid()
    for stop in (
        lambda: window.keys("C-z"),
        lambda: os.kill(app, signal.SIGSTOP),
        lambda: os.kill(window.pid(), signal.SIGTSTP),
    ):
        stop()
        window.shows("Stopped")
        assert_shell_works(window)
        window.type("clear; fg")
        window.keys("Enter")
        window.shows("● R")
        window.keys("2")
        window.shows("utilization: low")
        window.keys("1")
        window.hides("utilization: low")
    window.keys("q")
    window.shows("$")
    assert_shell_works(window)


def test_a_killed_app_leaves_a_working_terminal(window: Tmux) -> None:
    os.kill(window.app_pid(), signal.SIGKILL)
    window.shows("The app was killed (SIGKILL). Jobs keep running")
    assert_shell_works(window)
