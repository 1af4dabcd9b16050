"""The app as a guest in a real terminal: killed, stopped, resized, pasted into, looked away from; and what it leaves behind."""

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

SHELL_SAYS = "sum-$((40+2))"


@pytest.fixture(scope="module")
def shell() -> Iterator[Tmux]:
    """The demo in a shell of its own."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder:
        home = Home(Path(folder) / "home")
        made = Tmux(Path(folder) / "tmux", home, size=(100, 30), environ={}, verb="demo", by_hand=True)
        made.shows("$")
        yield made
        made.close()


@pytest.fixture
def window(shell: Tmux) -> Tmux:
    """With the queue shown; the app is started if the test before has ended it."""
    if "q Quit" not in shell.screen():
        shell.pid_file.unlink(missing_ok=True)
        shell.type(f"clear; {shell.app}")
        shell.keys("Enter")
    shell.shows("● R")
    return shell


def has_a_shell(window: Tmux) -> None:
    """Lines are edited and echoed, and the alternate screen is gone."""
    window.type(f"echo {SHELL_SAYS}; stty -a")
    window.shows(f"$ echo {SHELL_SAYS}")
    window.keys("Enter")
    window.shows("sum-42")
    window.has_sane_terminal()


def test_it_may_become_as_small_as_it_likes(window: Tmux) -> None:
    for cols, rows in ((20, 5), (4, 2), (1, 1), (100, 30)):
        window.resize(cols, rows)
        for key in ("2", "1", "?", "Escape", "n", "Escape", "Enter", "Escape"):
            window.keys(key)
    window.shows("● R")
    window.shows("q Quit")


PASTED = "qcyHRU Zn\nyes\rq"


def test_what_is_pasted_is_text_or_nothing(window: Tmux) -> None:
    window.paste(PASTED)
    window.keys("2")
    window.shows("metric: utilization")
    window.paste(PASTED)
    window.keys("1")
    window.hides("metric: utilization")
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


def test_a_key_typed_right_after_esc_is_one_of_its_own(window: Tmux) -> None:
    window.keys("Enter")
    window.shows("[Log]")
    window.sends("1b", "32")
    window.shows("metric: utilization")
    window.keys(":")
    window.type("usag")
    window.shows("usag")
    window.sends("1b", "31")
    window.shows("all jobs")


LONG = 10_000


def test_a_paste_of_ten_thousand_characters_is_text(window: Tmux) -> None:
    window.keys("/")
    window.paste("q" * LONG)
    window.shows("No jobs match the filter")
    window.keys("Escape")
    window.shows("● R")
    window.keys("n")
    window.shows("Enter Submit")
    window.keys("Tab", "Tab")  # from the script to the command
    window.paste("y" * LONG + "END")
    window.shows("yyyEND")
    window.shows("or command")
    window.shows("Enter Submit")
    window.keys("Escape")
    window.hides("Enter Submit")
    window.keys("2")
    window.shows("metric: utilization")
    window.keys("1")
    window.hides("metric: utilization")


def test_the_mouse_is_the_terminals_own_after_m_and_the_apps_again_after_another(window: Tmux) -> None:
    def is_the_apps() -> bool:
        return window.run("display-message", "-p", "#{mouse_any_flag}").strip() == "1"

    eventually(is_the_apps, what="clicks go to the app")
    window.keys("M")
    window.shows("The terminal uses the mouse")
    eventually(lambda: not is_the_apps(), what="clicks are the terminal's own, to select and to copy")
    window.keys("M")
    eventually(is_the_apps, what="clicks go to the app again")


TRUE_COLOUR = re.compile(r"\x1b\[[0-9;]*[34]8[;:]2[;:]")


@pytest.mark.parametrize(
    ("environ", "running", "many"),
    [("TERM=linux COLORTERM=", "* R", False), ("TERM=tmux-256color COLORTERM=truecolor", "● R", True)],
    ids=["TERM=linux", "truecolor"],
)
def test_it_writes_the_signs_and_colours_that_its_terminal_has(
    window: Tmux, environ: str, running: str, many: bool
) -> None:
    window.keys("q")
    window.hides("q Quit")
    window.type(f"clear; {environ} {window.app}")
    window.keys("Enter")
    window.shows(running)
    window.keys("2")
    window.shows("metric: utilization")
    assert bool(TRUE_COLOUR.search(window.screen("-e"))) is many
    window.keys("1", "Enter")
    window.shows("[Log]")
    window.keys("Escape")
    window.hides("[Log]")
    window.keys("q")
    window.hides("q Quit")
    has_a_shell(window)


def test_while_nobody_looks_the_clocks_stand_and_without_such_news_they_go(window: Tmux) -> None:
    """tmux tells nothing of the focus unless its user wants it: nothing is sent here but by us."""
    window.keys("2")
    window.shows("metric: utilization")
    before = window.screen()
    eventually(lambda: window.screen() != before, what="the values change")
    window.sends("1b", "5b", "4f")
    seen = window.screen()
    eventually(lambda: window.screen() != seen, what="news all the same, now and then")
    window.sends("1b", "5b", "49")
    window.keys("1")
    window.shows("● R")


def test_it_stops_for_the_shell_and_goes_on(window: Tmux) -> None:
    app = window.app_pid()
    for stop in (
        lambda: window.keys("C-z"),
        lambda: os.kill(app, signal.SIGSTOP),
        lambda: os.kill(window.pid(), signal.SIGTSTP),
    ):
        stop()
        window.shows("Stopped")
        has_a_shell(window)
        window.type("clear; fg")
        window.keys("Enter")
        window.shows("● R")
        window.keys("2")
        window.shows("metric: utilization")
        window.keys("1")
        window.hides("metric: utilization")
    window.keys("q")
    window.shows("$")
    has_a_shell(window)


def test_killed_outright_it_leaves_a_terminal_that_echoes(window: Tmux) -> None:
    os.kill(window.app_pid(), signal.SIGKILL)
    window.shows("The app was killed (SIGKILL). Jobs keep running")
    has_a_shell(window)
