"""`warpdeck --engine slurm` over a real Slurm: the gateway starts by itself, comes back after a kill, and tells its state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import VERB_S, Home
from tests.support.processes import has_ended, running
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm


@pytest.fixture
def gateway(slurm: RealSlurm, short_tmp: Path) -> Iterator[Home]:
    """A user on a login node of the Slurm. The home does not exist yet, and no variable names it."""
    found = Home(
        short_tmp / "state" / "warpdeck-slurm",
        XDG_STATE_HOME=str(short_tmp / "state"),
        XDG_CONFIG_HOME=str(short_tmp / "config"),
        **slurm.wrappers(short_tmp / "bin"),
    )
    (short_tmp / "state").mkdir()
    del found.environ["WARPDECK_HOME"]
    yield found
    for home in (found, Home(short_tmp / "state" / "warpdeck")):
        home.environ["WARPDECK_HOME"] = str(home.path)
        home.close()


def pid_of(home: Home) -> int:
    """Return the pid of the gateway, which holds the lock."""
    return int((home.path / "controller.lock").read_text().split()[0])


def gateways(home: Home) -> list[int]:
    """Return the pids of the gateways, and for a moment that of a new process that becomes a command of Slurm."""
    return running("warpdeck.daemon.gateway_process\0", f"\0--home\0{home.path}\0")


def test_commands_start_a_gateway_and_show_the_cluster(slurm: RealSlurm, gateway: Home) -> None:
    job = int(slurm.ok("sbatch", "--parsable", "--job-name=over", "--wrap", "sleep 300"))
    rows = gateway.json("--engine", "slurm", "queue")
    assert [(row["id"], row["name"], row["user"]) for row in rows if row["id"] == job] == [
        (job, "over", "root")
    ]
    status = gateway.json("--engine", "slurm", "status")
    assert (status["running"], status["home"]) == (True, str(gateway.path))
    assert status["engine"]["name"] == "slurm" and status["engine"]["version"].startswith("22.05.")
    assert status["engine"]["cluster"] == "warpdeck" and status["engine"]["problem"] == ""
    assert 0 < status["engine"]["requests_a_minute"] <= 6
    text = gateway.ok("--engine", "slurm", "status")
    assert "\nengine: Slurm 22.05." in text and ", cluster warpdeck, read " in text and " a minute\n" in text
    assert "controller" not in text
    assert gateway.ok("--engine", "slurm", "down") == "gateway stopped; jobs keep running\n"
    assert gateways(gateway) == []
    assert slurm.ok("squeue", "--noheader", f"--jobs={job}", "--format=%T").strip() in ("RUNNING", "PENDING")


def test_a_site_gateway_is_started_shown_and_stopped(gateway: Home, short_tmp: Path) -> None:
    shared = ("--engine", "slurm", "--shared")
    gateway.path.mkdir()
    (gateway.path / "config.toml").write_text(f'[slurm]\nsite_gateway = "{short_tmp}/site"\n')
    gateway.environ["WARPDECK_HOME"] = f"{short_tmp}/site"
    assert gateway.run("status", *shared).returncode == 1
    started = gateway.run("up", *shared)
    assert started.stdout == f"site gateway to Slurm started in {short_tmp}/site\n"
    assert "an account of its own is safer" in started.stderr
    assert f'site_gateway = "{short_tmp}/site"' in started.stderr
    try:
        assert "already running" in gateway.ok("up", *shared)
        mode = (
            (short_tmp / "site").stat().st_mode & 0o777,
            (short_tmp / "site" / "answers.sock").stat().st_mode & 0o777,
        )
        assert mode == (0o711, 0o666)
        gateway.environ["WARPDECK_HOME"] = str(gateway.path)
        gateway.ok("up", "--engine", "slurm")
        eventually(
            lambda: gateway.request("status")["engine"]["site_gateway"], what="the site gateway is used"
        )
        text = gateway.ok("status")
        assert "\nsite gateway: asks Slurm for all users, as root, " in text
        kinds = {row["kind"] for row in gateway.json("status", "--machine")["processes"]}
        assert {"gateway", "site gateway"} <= kinds
        gateway.environ["WARPDECK_HOME"] = f"{short_tmp}/site"
        shown = gateway.json("status", *shared)
        assert (shown["running"], shown["owner"]) == (True, "root") and shown["cluster"].startswith(
            "warpdeck on "
        )
    finally:
        gateway.environ["WARPDECK_HOME"] = f"{short_tmp}/site"
        assert gateway.ok("down", *shared) == "site gateway stopped; jobs keep running\n"


def test_a_killed_gateway_is_started_again_by_the_next_command(gateway: Home) -> None:
    gateway.ok("--engine", "slurm", "up")
    pid = pid_of(gateway)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: has_ended(pid), what="the end of the gateway")
    assert gateway.run("--engine", "slurm", "status").returncode == 1
    gateway.ok("--engine", "slurm", "queue")
    assert pid_of(gateway) != pid


def test_a_program_chooses_slurm_with_an_argument(gateway: Home) -> None:
    code = "import warpdeck\nwith warpdeck.Client(engine='slurm') as deck: print(deck.status().engine.name)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=gateway.environ, capture_output=True, text=True, timeout=VERB_S
    )
    assert (done.returncode, done.stdout) == (0, "slurm\n"), done.stderr
    rows = gateway.json("status", "--machine")["processes"]
    assert [(row["kind"], row["pid"]) for row in rows if row["home"] == str(gateway.path)] == [
        ("gateway", pid_of(gateway))
    ]


def test_a_gateway_survives_sighup(gateway: Home) -> None:
    gateway.ok("--engine", "slurm", "up")
    pid = pid_of(gateway)
    os.kill(pid, signal.SIGHUP)
    assert gateway.json("--engine", "slurm", "status")["pid"] == pid


def test_a_saved_choice_needs_no_option_and_a_home_keeps_its_engine(gateway: Home) -> None:
    gateway.ok("--engine", "slurm", "--save")
    assert "gateway to Slurm started" in gateway.ok("up")
    assert "gateway to Slurm already running" in gateway.ok("up")
    assert gateway.json("status")["engine"]["name"] == "slurm"
    gateway.environ["WARPDECK_HOME"] = str(gateway.path)
    assert gateway.json("status")["engine"]["name"] == "slurm"
    done = gateway.run("--engine", "warpdeck", "up")
    assert done.returncode == 1 and f"{gateway.path} belongs to a gateway to Slurm" in done.stderr
    assert gateway.ok("down") == "gateway stopped; jobs keep running\n"


def test_an_impossible_request_is_refused_with_its_reason(gateway: Home) -> None:
    done = gateway.run("--engine", "slurm", "node", "add", "n9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "warpdeck: Slurm's administrators do this with Slurm's own commands and slurm.conf\n"
    )


def test_a_start_without_slurm_is_refused_and_leaves_the_home_free(gateway: Home) -> None:
    gateway.environ["PATH"] = "/usr/bin:/bin"
    gateway.environ["WARPDECK_HOME"] = str(gateway.path)
    done = gateway.run("--engine", "slurm", "up")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith("warpdeck: the gateway did not start: cannot run ") and "PATH" in second
    assert gateways(gateway) == []
    assert not (gateway.path / "engine").exists()


def test_a_gateway_that_waits_for_slurm_can_be_stopped(gateway: Home, short_tmp: Path) -> None:
    program = short_tmp / "slow" / "sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    program.chmod(0o755)
    gateway.environ["PATH"] = f"{program.parent}:{gateway.environ['PATH']}"
    starting = at_terminal(gateway, "--engine", "slurm", "up")
    eventually(
        lambda: running("tail\0-f\0/dev/null", f"{program.parent}", also_in_environ=True),
        what="a slow sbatch",
    )
    assert gateway.ok("--engine", "slurm", "down") == "gateway stopped; jobs keep running\n"
    assert "the gateway did not start" in starting.rest()
    assert gateways(gateway) == [] and not (gateway.path / "engine").exists()


def test_a_wrong_setting_is_reported_with_its_file(gateway: Home) -> None:
    gateway.path.mkdir()
    config = gateway.path / "config.toml"
    config.write_text("[slurm]\nrequests_per_minute = -1\n")
    done = gateway.run("--engine", "slurm", "up")
    assert done.returncode == 1 and f"cannot use {config}: " in done.stderr
    assert "requests_per_minute" in done.stderr
    config.write_text("[slurm]\nrequests_per_minute = 60\n")
    gateway.ok("--engine", "slurm", "up")


def at_terminal(home: Home, *argv: str) -> Terminal:
    command = [sys.executable, "-m", "warpdeck.cli.main", *argv]
    return Terminal(command, environ=home.environ, cwd=home.path.parent)


def test_the_first_command_at_a_terminal_offers_slurm_and_saves_the_answer(gateway: Home) -> None:
    terminal = at_terminal(gateway, "up")
    terminal.until("[s/w] ")
    terminal.type("s\n")
    assert f"gateway to Slurm started in {gateway.path}" in terminal.rest()
    assert gateway.json("status")["engine"]["name"] == "slurm"
    again = at_terminal(gateway, "up").rest()
    assert "[s/w]" not in again and "already running" in again


def test_without_a_terminal_nothing_is_asked(gateway: Home) -> None:
    assert gateway.ok("up", "--no-local-node").startswith("controller started")
    assert not gateway.path.exists()
