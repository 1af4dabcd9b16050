"""Desktop notifications of job starts and ends from inside a real tmux: its bell, and OSC 9 if tmux passes it
on.
"""

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
    """The app with notifications for all jobs of its user. A second window is in front of it."""
    home.ok("up")
    config = home.path / "config"
    config.mkdir(mode=0o700)
    (config / "app.toml").write_text('notify = "own"\n')
    home.wait_for_idle_node()
    tmux = Tmux(short_tmp / "tmux", home, size=(100, 30), environ={})
    tmux.shows("No jobs. Press n to submit one")
    tmux.run("new-window", "-t", f":{OTHER}", "exec cat")
    yield tmux
    tmux.close()


@pytest.fixture
def desktop(home: Home, short_tmp: Path, window: Tmux) -> Iterator[Terminal]:
    """The terminal outside of tmux."""
    environ = {**home.environ, "TERM": "xterm-256color"}
    terminal = Terminal(["tmux", "-S", str(short_tmp / "tmux"), "attach"], environ=environ, cwd=short_tmp)
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    eventually(lambda: window.run("list-clients"), what="the terminal is attached")
    yield terminal
    terminal.close()


def test_a_job_end_rings_the_bell_and_is_sent_as_osc_9_if_allowed(
    home: Home, window: Tmux, desktop: Terminal
) -> None:
    home.ok("submit", "--no-snapshot", "-J", "quiet", "--wrap", "true")
    flag = ("display-message", "-p", "-t", f":{APP}", "#{window_bell_flag}")
    eventually(lambda: window.run(*flag).strip() == "1", what="the app's window has its bell flag set")
    window.run("set", "-g", "allow-passthrough", "on")
    window.run("select-window", "-t", f":{APP}")
    window.shows("quiet")
    home.ok("submit", "--no-snapshot", "-J", "loud", "--wrap", "true")
    desktop.until("\x1b]9;Job 2 loud ")
