"""The units of systemd are valid and hardened, for all homes and all ways to start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck.base import systemd_units as units

WORST_SCORE = 4.0
"""Largest exposure of the controller's unit, from 0 to 10, as systemd-analyze rates it."""


def printed(home: Home, folder: Path, *options: str) -> dict[str, Path]:
    """Write the units that the command prints into files, and return them by name."""
    text = home.ok("service", "install", "--print", *options)
    parts = re.split(r"^# (\S+)\n", text, flags=re.MULTILINE)[1:]
    found = {}
    for path, unit in zip(parts[::2], parts[1::2], strict=True):
        file = folder / os.path.basename(path)
        file.write_text(unit)
        found[file.stem] = file
    return found


def analyze(*argv: str | Path) -> str:
    """Return the output of systemd-analyze. It must succeed without a warning."""
    environ = {**os.environ, "XDG_RUNTIME_DIR": tempfile.gettempdir()}  # needed to read units of a user
    done = subprocess.run(
        ["systemd-analyze", *map(str, argv)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return done.stdout


@pytest.mark.systemd
@pytest.mark.parametrize("options", [(), ("--agent",), ("--watchdog", "30"), ("--user", "--agent")], ids=str)
def test_systemd_accepts_the_units(short_tmp: Path, options: tuple[str, ...]) -> None:
    home = Home(short_tmp / 'a "strange" folder; 100%h $HOME')
    found = printed(home, short_tmp, *options)
    assert set(found) <= set(units.UNITS) and found
    user = ["--user"] if "--user" in options else []
    analyze("verify", "--man=no", *user, *found.values())
    assert not home.path.exists()  # Nothing was started.


@pytest.mark.systemd
def test_the_controller_is_hardened(home: Home, short_tmp: Path) -> None:
    unit = printed(home, short_tmp)[units.CONTROLLER]
    out = analyze("security", "--offline=true", "--no-pager", unit)
    score = re.search(r"exposure level for \S+: ([\d.]+)", out)
    assert score is not None, out
    print(f"\nsystemd-analyze security: {score[1]} of 10 (10 is the worst)")
    assert float(score[1]) <= WORST_SCORE


def test_jobs_never_run_in_the_hardened_unit(home: Home, short_tmp: Path) -> None:
    alone = printed(home, short_tmp)[units.CONTROLLER].read_text()
    assert "--no-local-node" in alone and units.AGENT_SERVICE not in alone
    both = printed(home, short_tmp, "--agent")
    assert f"Environment={units.AGENT_SERVICE}=1" in both[units.CONTROLLER].read_text()
    agent = both[units.AGENT].read_text()
    assert "WARPDECK_AGENT_STAYS=1" in agent and "KillMode=process" in agent
    assert not any(line.split("=")[0] in agent for line in units.HARDENING.splitlines())


def test_an_agent_in_the_foreground_serves_a_controller_that_starts_none(home: Home) -> None:
    environ = {**home.environ, "WARPDECK_AGENT_STAYS": "1"}
    home.path.mkdir()
    argv = [sys.executable, "-I", "-m", "warpdeck.daemon.agent_process", "--home", str(home.path)]
    home.environ[units.AGENT_SERVICE] = "1"
    refused = home.run("up")
    assert refused.returncode == 0 and "this machine cannot run jobs" in refused.stderr
    agent = subprocess.Popen(argv, env=environ, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        home.wait_for_idle_node()
        job = home.json("submit", "--no-snapshot", "--wrap", "exit 5", "-o", "/dev/null")["job_id"]
        eventually(lambda: home.state(job) == "FAILED", what="the job ends")
    finally:
        agent.terminate()
        assert agent.wait(timeout=30) == 0


def test_without_systemd_the_command_names_the_way_to_see_the_units(home: Home) -> None:
    if os.path.isdir("/run/systemd/system"):
        return
    for verb in ("install", "remove"):
        done = home.run("service", verb)
        assert done.returncode == 1
        assert "systemd does not run on this machine" in done.stderr and "--print" in done.stderr
