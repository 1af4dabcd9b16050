"""A job's start and end told to the desktop from inside a real tmux: by its bell, and by OSC 9 where tmux hands that on."""

from __future__ import annotations

import fcntl
import struct
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.app.test_tui_tmux import Tmux
from tests.support.home import Home
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

pytestmark = pytest.mark.tmux
APP, OTHER = "0", "1"


@pytest.fixture
def window(home: Home, short_tmp: Path) -> Iterator[Tmux]:
    """The app, told to speak of all jobs of its user's; a second window lies before it."""
    home.ok("up")
    config = home.path / "config"
    config.mkdir(mode=0o700)
    (config / "app.toml").write_text('notify = "own"\n')
    home.wait_for_idle_node()
    made = Tmux(short_tmp / "tmux", home, size=(100, 30), environ={})
    made.shows("No jobs. Press n to submit one")
    made.run("new-window", "-t", f":{OTHER}", "exec cat")
    yield made
    made.close()


@pytest.fixture
def desktop(home: Home, short_tmp: Path, window: Tmux) -> Iterator[Terminal]:
    """The terminal outside of tmux."""
    environ = {**home.environ, "TERM": "xterm-256color"}
    made = Terminal(["tmux", "-S", str(short_tmp / "tmux"), "attach"], environ=environ, cwd=short_tmp)
    fcntl.ioctl(made.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    eventually(lambda: window.run("list-clients"), what="the terminal is attached")
    yield made
    made.close()


def test_a_job_that_ends_rings_in_tmux_and_speaks_where_tmux_lets_it(
    home: Home, window: Tmux, desktop: Terminal
) -> None:
    home.ok("submit", "--no-snapshot", "-J", "quiet", "--wrap", "true")
    flag = ("display-message", "-p", "-t", f":{APP}", "#{window_bell_flag}")
    eventually(lambda: window.run(*flag).strip() == "1", what="the app's window has rung")
    window.run("set", "-g", "allow-passthrough", "on")
    window.run("select-window", "-t", f":{APP}")
    window.shows("quiet")
    home.ok("submit", "--no-snapshot", "-J", "loud", "--wrap", "true")
    desktop.until("\x1b]9;Job 2 loud ")
