"""Interactive sessions from users' terminals: several clients, read-only watchers, and sessions that survive
failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.terminal import AtTerminal
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
StartCommand = Callable[..., AtTerminal]


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Home:
    shared_home.ok(
        "node", "add", f"root@{lab.address(1)}", "--name", "gpu1", "--accept-host-key", lab.fingerprint(1)
    )
    return shared_home


@pytest.fixture
def start_command(home: Home) -> Iterator[StartCommand]:
    """Start commands on terminals. After the test no job is left."""
    terminals: list[AtTerminal] = []

    def start(*argv: str) -> AtTerminal:
        terminals.append(AtTerminal(home, *argv))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()
    for row in home.json("queue"):
        home.run("cancel", row["label"])
    eventually(lambda: not home.json("queue"), timeout_s=90, what="all jobs have ended")


def shell(start_command: StartCommand) -> AtTerminal:
    """Return a terminal with a shell on the node."""
    terminal = start_command("run", "--pty", "env", "PS1=> ", "sh")
    terminal.until("> ")
    return terminal


def job_of(home: Home) -> str:
    [row] = home.json("queue")
    return str(row["label"])


def test_watchers_see_the_output_and_cannot_type(home: Home, start_command: StartCommand) -> None:
    session = shell(start_command)
    session.type("echo before-$((1+1))\n")
    session.until("before-2")
    watchers = [start_command("attach", "--watch", job_of(home)) for _ in range(2)]
    for watcher in watchers:
        watcher.until("before-2")
        watcher.type("echo typed\n")
    session.type("echo after-$((2+2))\n")
    for watcher in watchers:
        assert "typed" not in watcher.until("after-4")
    for watcher, key in zip(watchers, ("q", "\x03"), strict=True):
        watcher.type(key)
        assert watcher.ended() == 0
    session.type("exit 7\n")
    assert session.ended() == 7


def test_srun_with_options_and_pty_starts_a_session(home: Home, start_command: StartCommand) -> None:
    session = start_command("srun", "-J", "looked after", "-c", "1", "-u", "--pty", "env", "PS1=> ", "sh")
    session.until("> ")
    session.type("\n~d")
    assert session.ended() == 0
    [row] = home.json("queue")
    assert (row["name"], row["interactive"]) == ("looked after", True)
    back = start_command("attach", row["label"])
    back.type("exit 3\n")
    assert back.ended() == 3


def test_srun_with_several_tasks_and_pty_starts_a_step(home: Home, start_command: StartCommand) -> None:
    session = start_command(
        "srun", "-n2", "-O", "--pty", "sh", "-c", "echo $SLURM_PROCID of $SLURM_NTASKS; exit 4"
    )
    session.until("0 of 2")
    assert session.ended() == 4


def test_a_session_can_be_detached_with_the_escapes_of_ssh(home: Home, start_command: StartCommand) -> None:
    session = shell(start_command)
    session.type("\n~?")
    session.until("~d or ~.  detach")
    for key in ("d", "."):
        session.type(f"echo left-by-{key}-$((1+1))\n")
        session.until("-2")
        session.type(f"~{key}")
        session.until("detached; job")
        assert session.ended() == 0
        session = start_command("attach", job_of(home))
        session.until(f"left-by-{key}-2")
    session.type("exit\n")
    assert session.ended() == 0


def test_detaching_restores_the_modes_of_the_terminal(home: Home, start_command: StartCommand) -> None:
    session = shell(start_command)
    session.type("printf '\\033[?1049h\\033[?1000h'; echo full-$((1+1))\n")
    session.until("full-2")
    session.type("\n~d")
    session.until("\x1b[?1000l\x1b[?1049l")
    assert session.ended() == 0


def test_a_session_survives_its_client(home: Home, start_command: StartCommand) -> None:
    session = shell(start_command)
    session.type("echo one-$((0+1))\n")
    session.until("one-1")
    session.process.kill()
    second_client = start_command("attach", job_of(home))
    second_client.until("one-1")
    second_client.type("exit 5\n")
    assert second_client.ended() == 5


def test_a_session_survives_the_controller_and_its_client_reconnects(
    home: Home, start_command: StartCommand
) -> None:
    session = shell(start_command)
    home.kill_controller()
    session.until("Reconnecting")
    home.ok("up", "--no-local-node")
    session.until("reconnected")
    session.type("echo two-$((1+1))\n")
    session.until("two-2")
    session.type("exit 6\n")
    assert session.ended() == 6


def test_a_session_survives_the_agent_and_its_client_reconnects(
    home: Home, start_command: StartCommand, lab: Lab
) -> None:
    session = shell(start_command)
    agent = lab.agent(1)
    lab.on(1, "kill", "-9", str(agent))
    session.until("reconnected")
    session.type("echo three-$((1+2))\n")
    session.until("three-3")
    session.type("exit 4\n")
    assert session.ended() == 4


def test_a_session_survives_the_link_and_its_client_reconnects(
    home: Home, start_command: StartCommand, lab: Lab
) -> None:
    session = shell(start_command)
    session.type("sleep 1; echo four-$((2+2))\n")
    session.until("\n")
    lab.sh("sshd", "1", "stop")
    lab.sh("sshd", "1", "start")
    session.until("reconnected", timeout_s=90)
    session.until("four-4")
    session.type("exit 3\n")
    assert session.ended() == 3


def test_a_client_that_reconnects_can_be_detached(home: Home, start_command: StartCommand) -> None:
    session = shell(start_command)
    home.kill_controller()
    session.until("Reconnecting")
    session.type("~.")
    assert session.ended() == 0
    home.ok("up", "--no-local-node")
    assert eventually(lambda: home.json("queue"), what="the session continues")


def test_an_idle_session_is_ended_by_the_limit_of_the_site(home: Home, start_command: StartCommand) -> None:
    config = home.path / "config.toml"
    config.write_text("[interactive]\nidle_limit_s = 5\nidle_warning_s = 4\n")
    home.ok("config", "reload")
    try:
        session = shell(start_command)
        job = str(
            max(home.json("queue", "--all"), key=lambda row: row["id"])["label"]
        )  # The job may have ended meanwhile.
        session.until("unless a key is typed")
        assert session.ended() != 0
        eventually(lambda: home.state(job) == "TIMEOUT", what="the session is ended")
        assert "the session was idle for 5 s, the limit of interactive sessions on this cluster" in home.ok(
            "show", job
        )
    finally:
        config.unlink()
        home.ok("config", "reload")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--watch"], "no JOB given"),
        (["1", "2"], "unexpected argument 2"),
        (["--wach", "1"], "did you mean --watch?"),
    ],
)
def test_attach_needs_exactly_one_job(home: Home, argv: list[str], message: str) -> None:
    result = home.run("attach", *argv)
    assert result.returncode == 2 and message in result.stderr


def test_a_batch_job_has_no_terminal_to_watch(
    home: Home, start_command: StartCommand, short_tmp: Path
) -> None:
    job = home.json("submit", "--no-snapshot", "--wrap", "sleep 1000", cwd=short_tmp)["job_id"]
    assert "has no terminal" in home.run("attach", "--watch", str(job)).stderr
