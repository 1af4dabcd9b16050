"""The app in a real tmux: submit, read the log, the GPU page, cancel, attach and quit, and the state of the
terminal afterwards.
"""

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

FEW_COLORS = {"TERM": "screen", "COLORTERM": ""}
NO_COLOR = {"NO_COLOR": "1"}


class Tmux:
    """A window that runs the app. After the app has ended, a shell shows the settings of the terminal.

    With `by_hand` the window runs an interactive shell instead, in which the command `app` starts the app.
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
        """Run a tmux command and return its output."""
        result = subprocess.run(
            [*self._argv, *argv], env=self._environ, check=True, capture_output=True, text=True, timeout=20
        )
        return result.stdout

    def keys(self, *keys: str) -> None:
        """Press keys, given by tmux's names."""
        self.run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text literally."""
        self.run("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        """Paste text as a terminal does, bracketed if the program has requested it."""
        self.run("set-buffer", text)
        self.run("paste-buffer", "-p")

    def sends(self, *octets: str) -> None:
        """Send bytes in hexadecimal, as a terminal sends them by itself."""
        self.run("send-keys", "-H", *octets)

    def resize(self, cols: int, rows: int) -> None:
        self.run("resize-window", "-x", str(cols), "-y", str(rows))

    def screen(self, *options: str) -> str:
        return self.run("capture-pane", "-p", *options)

    def shows(self, text: str) -> None:
        """Wait until the text is on the screen. The error message shows the screen."""
        self.until(lambda: text in self.screen(), f"{text!r} on the screen")

    def hides(self, text: str) -> None:
        self.until(lambda: text not in self.screen(), f"{text!r} gone from the screen")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds. The error message shows the screen."""
        try:
            eventually(holds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen()}") from error

    def pid(self) -> int:
        """Return the app's pid, as its shell has written it."""
        return int(eventually(lambda: self.pid_file.exists() and self.pid_file.read_text(), what="the pid"))

    def app_pid(self) -> int:
        """Return the pid of the app itself, a child of the process that guards the terminal."""
        guard = self.pid()
        children = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        command = Path(f"/proc/{guard}/cmdline").read_bytes()
        return next(int(pid) for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes() == command)

    def has_sane_terminal(self) -> None:
        """Wait until the terminal edits and echoes lines, as a shell expects."""
        self.until(
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
    tmux = Tmux(short_tmp / "tmux", home, size=size, environ=environ)
    yield tmux
    tmux.close()


def open_shell(window: Tmux) -> None:
    """Open a shell and wait for its first output."""
    window.keys("i")
    window.shows("Open a shell")
    window.keys("Enter")
    window.shows("to detach: press Enter")
    window.type("echo sum-$((40+2))")
    window.keys("Enter")
    window.shows("sum-42")


@pytest.mark.parametrize(
    "window",
    [((120, 30), {}), ((80, 24), FEW_COLORS), ((80, 24), NO_COLOR)],
    ids=["120x30", "80x24 in 16 colors", "80x24 without color"],
    indirect=True,
)
def test_the_main_actions_work_in_a_terminal(home: Home, window: Tmux) -> None:
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
    window.keys("Escape")
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
    window.shows("[Log]")  # the preview of the queue shows the end of the log, too
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


def test_an_empty_log_is_shown_as_empty_until_output_arrives(
    home: Home, window: Tmux, short_tmp: Path
) -> None:
    gate = short_tmp / "gate"
    wait_script = f"until [ -e {gate} ]; do sleep 0.1; done; echo it spoke; sleep 600"
    home.ok("submit", "--no-snapshot", "-J", "quiet", "--wrap", wait_script)
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
"""Output as fast as the disk takes it. The file is truncated at times to limit its size."""
GROWTH = 64 * MIB


def test_a_flood_of_output_is_shown_in_bounded_memory_and_delays_nothing(
    home: Home, window: Tmux, short_tmp: Path
) -> None:
    """One user follows the output in the app, one reads it as it arrives, and one does not read at all."""
    window.shows("No jobs. Press n to submit one")
    gate, output = short_tmp / "gate", short_tmp / "out"
    command = FLOOD.format(gate=gate, output=output)
    agent = lock_holder(home.path / "agent" / "agent.lock")
    before = {pid: peak_bytes(pid) for pid in (home.controller_pid(), agent)}
    job = home.json("submit", "--no-snapshot", "-J", "torrent", "-o", str(output), "--wrap", command)[
        "job_id"
    ]
    follow = [sys.executable, "-m", "warpdeck.cli.main", "logs", "-f", str(job)]
    idle_reader, active_reader = (
        subprocess.Popen(follow, env=home.environ, stdout=subprocess.PIPE) for _ in range(2)
    )
    try:
        window.shows("torrent")
        window.keys("Enter")
        window.shows("piece ")
        read = 0
        assert active_reader.stdout is not None
        while read < 64 * MIB:
            read += len(os.read(active_reader.stdout.fileno(), MIB))
        other = home.json("submit", "--no-snapshot", "--wrap", "exit 3")["job_id"]
        eventually(lambda: home.job(other)["end"], what="another job runs meanwhile")
        assert home.job(other)["exit_code"] == "3:0"
        window.keys("d")
        window.shows("work dir")
        assert all(peak_bytes(pid) - peak < GROWTH for pid, peak in before.items())
        gate.touch()
        eventually(lambda: home.state(job) == "COMPLETED", what="the flood has ended")
    finally:
        gate.touch()
        for follower in (idle_reader, active_reader):
            follower.kill()
            follower.communicate()
    window.keys("q")
    window.shows("left with 0")


def peak_bytes(pid: int) -> int:
    """Return the peak memory of a process."""
    return number(table(f"/proc/{pid}/status")["VmHWM"]) * 1024


def test_no_color_escapes_are_written_with_no_color(home: Home, short_tmp: Path) -> None:
    window = Tmux(short_tmp / "tmux", home, size=(80, 24), environ=NO_COLOR, verb="demo")
    window.shows("● R")
    window.keys("2")
    window.shows("utilization: low")
    assert not re.search(r"\x1b\[[0-9;]*[349][0-8][;m]", window.screen("-e"))
    window.keys("q")
    window.shows("left with 0")
    window.close()


def test_a_smaller_window_keeps_the_important_columns(home: Home, window: Tmux) -> None:
    home.ok("submit", "--hold", "--no-snapshot", "-J", "waiting", "--wrap", "true")
    window.shows("held")
    window.resize(60, 12)
    window.shows("q Quit")
    window.shows("◌ PD")
    window.hides("UTIL")
    window.resize(120, 30)
    window.shows("UTIL")


def test_no_text_of_the_app_is_left_after_a_resize(home: Home, window: Tmux) -> None:
    window.shows("No jobs. Press n to submit one")
    window.resize(200, 60)
    window.until(
        lambda: len(window.screen().splitlines()[0].rstrip()) > 150, "the strip is as wide as the window"
    )
    window.keys("q")
    window.shows("left with 0")
    assert "6 Site" not in window.screen()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["TERM", "HUP"])
@pytest.mark.parametrize("in_shell", [False, True], ids=["in the app", "in a shell"])
def test_a_signal_restores_the_terminal(
    home: Home, window: Tmux, number: signal.Signals, in_shell: bool
) -> None:
    window.shows("No jobs. Press n to submit one")
    if in_shell:
        open_shell(window)
    os.kill(window.pid(), number)
    window.shows("left with 0")
    window.has_sane_terminal()


def test_the_app_restarts_a_crashed_controller(home: Home, window: Tmux) -> None:
    home.ok("submit", "--no-snapshot", "-J", "steady", "--wrap", "sleep 600")
    window.shows("● R")
    before = home.controller_pid()
    home.kill_controller()
    eventually(lambda: home.controller_pid() != before, what="a new controller runs")
    window.hides("reconnecting")
    window.shows("● R")


def test_a_shell_in_the_app_reconnects_after_the_controller_was_killed(home: Home, window: Tmux) -> None:
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
    window.shows("The server has stopped")
    assert home.run("status").returncode == 1
    window.keys("C-r")
    window.hides("The server has stopped")
    eventually(lambda: home.run("status").returncode == 0, what="a new controller runs")
