"""The app in a real tmux: submit, watch the log, the GPU page, cancel, attach, quit; and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.agent import lock_holder
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck_agent.linux.procfs import number, table

pytestmark = pytest.mark.tmux

FEW_COLOURS = {"TERM": "screen", "COLORTERM": ""}
NO_COLOUR = {"NO_COLOR": "1"}


class Tmux:
    """One window with the app in it; when it has ended, a shell shows what terminal it left.

    `by_hand`: an interactive shell, in which the app was started with the command that `app` is.
    """

    def __init__(
        self,
        socket: Path,
        home: Home,
        *,
        size: tuple[int, int],
        environ: dict[str, str],
        verb: str = "",
        by_hand: bool = False,
    ) -> None:
        self._argv = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self._environ = {**home.environ, "LC_ALL": "C.UTF-8", **environ}
        self._environ.pop("TMUX", None)
        if "NO_COLOR" not in environ:
            self._environ.pop("NO_COLOR", None)
        cols, rows = size
        self.pid_file = socket.with_name("pid")
        self.app = f"sh -c 'echo $$ >{self.pid_file}; exec {sys.executable} -m warpdeck.cli.main {verb}'"
        command = f"{self.app}; echo left with $?; stty -a; exec cat"
        if by_hand:
            command = "env PS1='$ ' bash --norc --noprofile -i"
        self.run("new-session", "-d", "-x", str(cols), "-y", str(rows), "-c", str(home.path.parent), command)

    def run(self, *argv: str) -> str:
        """One of tmux's own commands; what it prints."""
        done = subprocess.run(
            [*self._argv, *argv], env=self._environ, check=True, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Keys by tmux's names."""
        self.run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Text as it is."""
        self.run("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        """As a terminal pastes: bracketed, where the program asked for that."""
        self.run("set-buffer", text)
        self.run("paste-buffer", "-p")

    def sends(self, *octets: str) -> None:
        """What a terminal sends by itself, in hexadecimal."""
        self.run("send-keys", "-H", *octets)

    def resize(self, cols: int, rows: int) -> None:
        self.run("resize-window", "-x", str(cols), "-y", str(rows))

    def screen(self, *options: str) -> str:
        return self.run("capture-pane", "-p", *options)

    def shows(self, words: str) -> None:
        """Waits for words on the screen; fails with what is there instead."""
        self._until(lambda: words in self.screen(), f"{words!r} on the screen")

    def hides(self, words: str) -> None:
        self._until(lambda: words not in self.screen(), f"{words!r} gone from the screen")

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            eventually(holds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen()}") from error

    def pid(self) -> int:
        """The app's, as its shell knows it."""
        return int(eventually(lambda: self.pid_file.exists() and self.pid_file.read_text(), what="the pid"))

    def app_pid(self) -> int:
        """The app's own, below the process that guards the terminal."""
        guard = self.pid()
        below = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        command = Path(f"/proc/{guard}/cmdline").read_bytes()
        return next(int(pid) for pid in below if Path(f"/proc/{pid}/cmdline").read_bytes() == command)

    def has_sane_terminal(self) -> None:
        """Lines are edited and echoed again, as a shell wants it."""
        self._until(
            lambda: {"icanon", "echo", "isig", "icrnl"} <= set(self.screen().split()), "a sane terminal"
        )

    def close(self) -> None:
        subprocess.run([*self._argv, "kill-server"], check=False, capture_output=True, timeout=20)


@pytest.fixture
def window(home: Home, short_tmp: Path, request: pytest.FixtureRequest) -> Iterator[Tmux]:
    """The app on a home with this machine as its node."""
    size, environ = getattr(request, "param", ((120, 30), {}))
    (short_tmp / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH -J looped\nwhile true; do echo a line; sleep 0.2; done\n"
    )
    home.ok("up")
    home.wait_for_idle_node()
    made = Tmux(short_tmp / "tmux", home, size=size, environ=environ)
    yield made
    made.close()


def open_shell(window: Tmux) -> None:
    """A shell that has answered."""
    window.keys("i")
    window.shows("~d to detach")
    window.type("echo sum-$((40+2))")
    window.keys("Enter")
    window.shows("sum-42")


@pytest.mark.parametrize(
    "window",
    [((120, 30), {}), ((80, 24), FEW_COLOURS), ((80, 24), NO_COLOUR)],
    ids=["120x30", "80x24 in 16 colors", "80x24 without colour"],
    indirect=True,
)
def test_a_day_in_the_app(home: Home, window: Tmux) -> None:
    window.shows("No jobs. Press n to submit one")
    window.keys("n")
    window.shows("Enter Submit")
    window.type("job.sh")
    window.keys("Enter")
    window.shows("1 running")
    eventually(lambda: home.state(1) == "RUNNING", what="the job runs")
    window.keys("Enter")
    window.shows("a line")
    window.keys("d")
    window.shows("work dir")
    window.keys("2")
    window.shows("CPUs 1/")
    window.keys("1")
    window.shows("● R")
    window.keys("c")
    window.shows("$ warpdeck cancel 1")
    window.keys("y")
    window.shows("⊘ CA")
    assert home.state(1) == "CANCELLED"
    window.keys("?")
    window.shows("My jobs or all")
    window.keys("Enter")
    window.hides("My jobs or all")
    open_shell(window)
    window.keys("Enter")
    window.type("~d")
    window.shows("Detached from job 2")
    window.shows("interactive")
    window.keys("g")
    window.keys("a")
    window.shows("sum-42")
    window.type("exit")
    window.keys("Enter")
    window.shows("has ended")
    window.keys("q")
    window.shows("left with 0")
    window.has_sane_terminal()


def test_a_long_log_opens_at_its_end_and_goes_to_its_beginning(home: Home, window: Tmux) -> None:
    window.shows("No jobs. Press n to submit one")
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


def test_a_log_is_called_empty_where_it_is_and_until_something_is_written(
    home: Home, window: Tmux, short_tmp: Path
) -> None:
    gate = short_tmp / "gate"
    waits = f"until [ -e {gate} ]; do sleep 0.1; done; echo it spoke; sleep 600"
    home.ok("submit", "--no-snapshot", "-J", "quiet", "--wrap", waits)
    window.shows("● R")
    window.keys("Enter")
    window.shows("No output yet")
    gate.touch()
    window.shows("it spoke")
    window.hides("No output yet")


MIB = 1 << 20
FLOOD = (
    "i=0; while [ ! -e {gate} ]; do i=$((i+1)); head -c 4194304 /dev/zero; echo; echo piece $i; "
    "[ $((i % 128)) != 0 ] || : >{output}; done"
)
"""As fast as the disk takes it, which may be slowly for all. It begins anew now and then: nobody wants so much kept."""
GROWTH = 64 * MIB


def test_a_flood_of_output_is_watched_and_nothing_grows_or_stands_still(
    home: Home, window: Tmux, short_tmp: Path
) -> None:
    """Somebody follows it in the app, somebody reads it as it comes, somebody does not read at all."""
    window.shows("No jobs. Press n to submit one")
    gate, output = short_tmp / "gate", short_tmp / "out"
    command = FLOOD.format(gate=gate, output=output)
    agent = lock_holder(home.path / "agent" / "agent.lock")
    before = {pid: peak_bytes(pid) for pid in (home.controller_pid(), agent)}
    job = home.json("submit", "--no-snapshot", "-J", "torrent", "-o", str(output), "--wrap", command)[
        "job_id"
    ]
    follow = [sys.executable, "-m", "warpdeck.cli.main", "logs", "-f", str(job)]
    lazy, eager = (subprocess.Popen(follow, env=home.environ, stdout=subprocess.PIPE) for _ in range(2))
    try:
        window.shows("torrent")
        window.keys("Enter")
        window.shows("piece ")
        read = 0
        assert eager.stdout is not None
        while read < 64 * MIB:
            read += len(os.read(eager.stdout.fileno(), MIB))
        other = home.json("submit", "--no-snapshot", "--wrap", "exit 3")["job_id"]
        eventually(lambda: home.job(other)["end"], what="another job runs beside it")
        assert home.job(other)["exit_code"] == "3:0"
        window.keys("d")
        window.shows("work dir")
        assert all(peak_bytes(pid) - peak < GROWTH for pid, peak in before.items())
        gate.touch()
        eventually(lambda: home.state(job) == "COMPLETED", what="the flood has ended")
    finally:
        gate.touch()
        for follower in (lazy, eager):
            follower.kill()
            follower.communicate()
    window.keys("q")
    window.shows("left with 0")


def peak_bytes(pid: int) -> int:
    """The most memory that a process has ever had."""
    return number(table(f"/proc/{pid}/status")["VmHWM"]) * 1024


def test_without_colour_no_colour_is_written(home: Home, short_tmp: Path) -> None:
    window = Tmux(short_tmp / "tmux", home, size=(80, 24), environ=NO_COLOUR, verb="demo")
    window.shows("● R")
    window.keys("2")
    window.shows("metric: utilization")
    assert not re.search(r"\x1b\[[0-9;]*[349][0-8][;m]", window.screen("-e"))
    window.keys("q")
    window.shows("left with 0")
    window.close()


def test_a_smaller_window_keeps_what_matters(home: Home, window: Tmux) -> None:
    home.ok("submit", "--hold", "--no-snapshot", "-J", "waiting", "--wrap", "true")
    window.shows("held")
    window.resize(60, 12)
    window.shows("q Quit")
    window.shows("◌ PD")
    window.resize(120, 30)
    window.shows("LIMIT")


def test_a_larger_window_gets_the_shells_lines_back_and_none_of_ours(home: Home, window: Tmux) -> None:
    window.shows("No jobs. Press n to submit one")
    window.resize(200, 60)
    window.shows("LIMIT")
    window.keys("q")
    window.shows("left with 0")
    assert "LIMIT" not in window.screen()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["TERM", "HUP"])
@pytest.mark.parametrize("lent", [False, True], ids=["in the app", "in a shell"])
def test_a_signal_leaves_the_terminal_as_it_was(
    home: Home, window: Tmux, number: signal.Signals, lent: bool
) -> None:
    window.shows("No jobs. Press n to submit one")
    if lent:
        open_shell(window)
    os.kill(window.pid(), number)
    window.shows("left with 0")
    window.has_sane_terminal()


def test_the_app_says_when_the_controller_crashes_and_starts_it_again(home: Home, window: Tmux) -> None:
    home.ok("submit", "--no-snapshot", "-J", "steady", "--wrap", "sleep 600")
    window.shows("● R")
    before = home.controller_pid()
    home.kill_controller()
    eventually(lambda: home.controller_pid() != before, what="another controller")
    window.hides("reconnecting")
    window.shows("● R")


def test_a_shell_in_the_app_comes_back_after_the_controller_was_killed(home: Home, window: Tmux) -> None:
    window.shows("No jobs. Press n to submit one")
    open_shell(window)
    home.kill_controller()
    window.shows("Reconnecting")
    home.ok("up")
    window.shows("reconnected")
    window.type("echo sum-$((50+3))")
    window.keys("Enter")
    window.shows("sum-53")


def test_a_controller_that_was_stopped_stays_stopped(home: Home, window: Tmux) -> None:
    window.shows("No jobs. Press n to submit one")
    home.ok("down")
    window.shows("Controller stopped")
    assert home.run("status").returncode == 1
    window.keys("C-r")
    window.hides("Controller stopped")
    eventually(lambda: home.run("status").returncode == 0, what="another one runs")
