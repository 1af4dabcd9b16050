"""The app in a real tmux: submit, watch the log, the GPU page, cancel, the shell, quit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.home import Home
from tests.waiting import eventually

pytestmark = pytest.mark.tmux


class Tmux:
    """One window with a command in it."""

    def __init__(self, socket: Path, home: Home, *, size: tuple[int, int], environ: dict[str, str]) -> None:
        self._argv = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self._environ = {**home.environ, **environ}
        cols, rows = size
        command = f"{sys.executable} -m warpdeck.cli.main; echo left with $?; exec cat"
        self._run("new-session", "-d", "-x", str(cols), "-y", str(rows), "-c", str(home.path.parent), command)

    def _run(self, *argv: str) -> str:
        done = subprocess.run(
            [*self._argv, *argv], env=self._environ, check=True, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Keys by tmux's names."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Text as it is."""
        self._run("send-keys", "-l", text)

    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def shows(self, words: str) -> None:
        """Waits for words on the screen."""
        try:
            eventually(lambda: words in self.screen(), timeout_s=30, what=repr(words))
        except AssertionError as error:
            error.add_note(self.screen())
            raise

    def close(self) -> None:
        subprocess.run([*self._argv, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def window(home: Home, short_tmp: Path, request: pytest.FixtureRequest) -> Iterator[Tmux]:
    """The app on a home with this machine as its node."""
    size, environ = getattr(request, "param", ((120, 30), {}))
    (short_tmp / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH -J looped\nwhile true; do echo a line; sleep 0.2; done\n"
    )
    home.ok("up")
    eventually(lambda: home.json("node", "ls")[0]["state"] == "idle", what="the node is there")
    made = Tmux(short_tmp / "tmux", home, size=size, environ=environ)
    yield made
    made.close()


def test_a_day_in_the_app(home: Home, window: Tmux) -> None:
    window.shows("no jobs; n submits one")
    window.keys("n")
    window.shows("Enter submits")
    window.type("job.sh")
    window.keys("Enter")
    window.shows("looped")
    eventually(lambda: home.state(1) == "RUNNING", what="the job runs")
    window.keys("Enter")
    window.shows("a line")
    window.keys("d")
    window.shows("runs in")
    window.keys("c")
    window.shows("warpdeck cancel 1")
    window.keys("y")
    eventually(lambda: home.state(1) == "CANCELLED", what="the job is cancelled")
    window.keys("1")
    window.shows("CA")
    window.keys("2")
    window.shows("CPUs 0/")
    window.keys("?")
    window.shows("Next theme")
    window.keys("Enter")
    window.keys("t")
    window.keys("1")
    window.keys("i")
    window.shows("~d detaches")
    window.type("echo sum-$((40+2))")
    window.keys("Enter")
    window.shows("sum-42")
    window.type("exit")
    window.keys("Enter")
    window.shows("has ended")
    window.keys("q")
    window.shows("left with 0")


def test_a_long_log_opens_at_its_end_and_goes_to_its_beginning(home: Home, window: Tmux) -> None:
    window.shows("no jobs; n submits one")
    code = "for i in range(100000): print('row', i, 'x' * 60)"
    home.ok("submit", "--no-snapshot", "-J", "wordy", "--wrap", f'{sys.executable} -c "{code}"')
    eventually(lambda: home.state(1) == "COMPLETED", what="the job has written its log")
    window.keys("Enter")
    window.shows("row 99999 ")
    window.keys("g")
    window.shows("row 0 ")
    window.type("/row 50000 ")
    window.keys("Enter")
    window.shows("row 50001 ")
    window.keys("G")
    window.shows("row 99999 ")
    window.keys("q")
    window.shows("left with 0")


@pytest.mark.parametrize(
    "window",
    [((80, 24), {"TERM": "screen", "COLORTERM": ""}), ((80, 24), {"NO_COLOR": "1"})],
    ids=["16 colours", "no colour"],
    indirect=True,
)
def test_it_is_readable_at_80x24_without_colours(home: Home, window: Tmux) -> None:
    window.shows("no jobs; n submits one")
    home.ok("submit", "--hold", "--no-snapshot", "-J", "waiting", "--wrap", "true")
    window.shows("◌ PD")
    window.shows("held;")
    window.keys("q")
    window.shows("left with 0")
