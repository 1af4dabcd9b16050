"""Where the app cannot be shown, its screen is printed once as plain text."""

from __future__ import annotations

import pytest
from tests.support.home import Home
from tests.support.terminal import AtTerminal


@pytest.mark.parametrize(("verb", "text"), [((), "0 running, 0 pending"), (("screen", "nodes"), "NODE")])
def test_a_pipe_gets_the_screen_as_plain_text(home: Home, verb: tuple[str, ...], text: str) -> None:
    home.ok("up")
    home.wait_for_idle_node()
    done = home.run(*verb)
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)
    assert text in done.stdout
    screen = verb[-1] if verb else "queue"
    assert f"no terminal, so the app is not opened; this is `warpdeck screen {screen} --plain`" in done.stderr


def test_a_dumb_terminal_gets_the_screen_as_plain_text(home: Home) -> None:
    home.ok("up", "--no-local-node")
    home.environ["TERM"] = "dumb"
    terminal = AtTerminal(home)
    shown = terminal.rest()
    assert "TERM=dumb, so the app is not opened" in shown
    assert "0 running, 0 pending" in shown and "\x1b" not in shown
