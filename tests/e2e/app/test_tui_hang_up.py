"""A closed terminal ends the app and all its processes, but no interactive session."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.app.test_tui_tmux import Tmux, open_shell
from tests.support.home import Home
from tests.support.processes import has_ended
from tests.support.waiting import eventually

pytestmark = pytest.mark.tmux

GONE_S = 20.0
"""The budget is one second, but other tests may use this machine too."""
EDITOR = "sh -c 'trap \"\" HUP TERM; echo the-editor-runs; exec tail -f /dev/null'"
"""An editor that ignores hang-ups."""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """A home with this machine as its node, for all tests of the module."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder:
        home = Home(Path(folder) / "home")
        home.ok("up")
        home.wait_for_idle_node()
        yield home
        home.close()


@pytest.fixture
def window(site: Home, short_tmp: Path) -> Iterator[Tmux]:
    tmux = Tmux(short_tmp / "tmux", site, size=(100, 30), environ={"EDITOR": EDITOR, "PS1": "=> "})
    tmux.shows("q Quit")
    yield tmux
    tmux.close()
    for row in site.json("queue"):
        site.run("cancel", row["label"])
    eventually(lambda: not site.json("queue"), what="all jobs have ended")


def close_terminal(window: Tmux) -> None:
    """Close the terminal, and wait until the app and its guard process have ended."""
    guard, app = window.pid(), window.app_pid()
    window.run("kill-session")
    for pid in (app, guard):
        eventually(
            lambda pid=pid: has_ended(pid), timeout_s=GONE_S, what=f"process {pid} of the app has ended"
        )


def app_again(window: Tmux, site: Home, *, verb: str = "") -> Tmux:
    """Open another window with the app, or with a command."""
    return Tmux(window.pid_file.with_name("again"), site, size=(100, 30), environ={"PS1": "=> "}, verb=verb)


def running_session(site: Home) -> str:
    [row] = site.json("queue")
    assert (row["state"], row["interactive"]) == ("RUNNING", True)
    return str(row["label"])


def at_the_queue(window: Tmux) -> None:
    window.shows("n New")


def at_a_page(window: Tmux) -> None:
    window.keys("2")
    window.shows("CPUs 0/")


def in_the_editor(window: Tmux) -> None:
    window.keys("n")
    window.shows("Enter Submit")
    window.keys("C-e")
    window.shows("the-editor-runs")


@pytest.mark.parametrize("open_place", [at_the_queue, at_a_page, in_the_editor])
def test_the_app_ends_with_its_terminal(window: Tmux, open_place: Callable[[Tmux], None]) -> None:
    open_place(window)
    close_terminal(window)


@pytest.mark.parametrize("prints", [False, True], ids=["a quiet session", "a session that prints"])
def test_a_session_of_the_app_survives_a_closed_terminal(site: Home, window: Tmux, prints: bool) -> None:
    open_shell(window)
    if prints:
        window.type("while sleep 0.05; do echo still-here; done")
        window.keys("Enter")
        window.shows("still-here")
    close_terminal(window)
    label = running_session(site)
    back = app_again(window, site, verb=f"attach {label}")
    try:
        back.shows("still-here" if prints else "sum-42")
        if not prints:
            back.type("echo back-$((1+1))")
            back.keys("Enter")
            back.shows("back-2")
    finally:
        back.close()


def test_the_next_app_offers_the_session_that_lost_its_terminal(site: Home, window: Tmux) -> None:
    open_shell(window)
    close_terminal(window)
    label = running_session(site)
    back = app_again(window, site)
    try:
        back.shows(f"Session {label} is waiting for you: a attaches")
        back.keys("a")
        back.shows("sum-42")
        third = Tmux(window.pid_file.with_name("third"), site, size=(100, 30), environ={})
        try:
            third.shows("1 running")
            third.keys("5")
            third.shows("1 session")
            assert "is waiting for you" not in third.screen()
        finally:
            third.close()
    finally:
        back.close()


def test_the_app_ends_with_its_terminal_while_a_session_is_pending(site: Home, window: Tmux) -> None:
    site.ok("submit", "--exclusive", "--wrap", "sleep 600")
    window.shows("1 running")
    window.keys("i")
    window.shows("Open a shell")
    window.keys("Enter")
    window.shows("Leave it waiting")
    close_terminal(window)
    back = app_again(window, site)
    try:
        back.shows("is still pending: a waits for it")
    finally:
        back.close()


def test_attach_detaches_from_a_closed_terminal_even_if_it_ignores_hang_ups(
    site: Home, window: Tmux, short_tmp: Path
) -> None:
    open_shell(window)
    window.keys("Enter")
    window.type("~d")
    window.shows("Detached from job")
    label = running_session(site)
    marker = short_tmp / "left"
    command = f"trap '' HUP; {sys.executable} -m warpdeck.cli.main attach {label}; touch {marker}"
    window.run("new-window", command)
    window.shows("sum-42")
    window.run("kill-session")
    eventually(marker.exists, what="attach has ended")
    assert running_session(site) == label
