"""Slurm's commands for callers with a cleaned environment, and for login shells; and the machine's controllers and agents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home
from tests.support.processes import running
from tests.support.waiting import eventually

CLEAN_QUEUE = "env -i PATH=/usr/local/bin:/usr/bin:/bin squeue -h -o '%i %T'"
CLEAN = {"PATH": "/usr/bin:/bin", "WARPDECK_SHARE_MACHINE": "1"}
"""What sudo and cron leave; and what lets the agents of tests run side by side."""


def clean(*argv: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env={**CLEAN, **environ}, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def programs(home: Home) -> Path:
    home.ok("up", "--no-local-node")
    return Path(home.ok("shims", "--folder").strip())


def test_a_script_finds_its_home_in_a_cleaned_environment(
    home: Home, programs: Path, short_tmp: Path
) -> None:
    """As batchspawner calls sbatch, twice: by an interpreter, and by the user's submitter."""
    ids = []
    for _ in range(2):
        done = clean(programs / "sbatch", "--parsable", "--hold", "--wrap", "true", HOME=str(short_tmp))
        assert done.returncode == 0, done.stderr
        ids.append(done.stdout.strip())
    assert [home.state(job) for job in ids] == ["PENDING"] * 2
    seen = clean(programs / "squeue", "-h", "-o", "%i", HOME=str(short_tmp))
    assert sorted(seen.stdout.split()) == sorted(ids)
    assert sorted(path.name for path in short_tmp.iterdir()) == ["home"], "nothing was begun elsewhere"
    home.ok("down")
    assert clean(programs / "squeue", "-h", "-o", "%i").stdout.split(), "it was set up, and so is started"


@pytest.mark.parametrize("command", ["sbatch", "squeue", "srun", "salloc"])
def test_no_command_of_slurms_starts_a_controller_where_nobody_has_set_one_up(
    programs: Path, short_tmp: Path, command: str
) -> None:
    elsewhere = str(short_tmp / "elsewhere")
    words = {"sbatch": ["--wrap", "true"], "srun": ["true"], "salloc": ["true"]}.get(command, [])
    other = clean(programs / command, *words, WARPDECK_HOME=elsewhere)
    assert other.returncode == 1 and f"but WARPDECK_HOME is {elsewhere}" in other.stderr
    entry = [sys.executable, "-m", "warpdeck.slurm.runtime.entry", command, *words]
    default = clean(*entry, HOME=elsewhere, XDG_STATE_HOME=elsewhere)
    assert default.returncode == 1 and "is not set up" in default.stderr
    assert not Path(elsewhere).exists()


class User:
    """A user's folder and login shell, and a home that was set up."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / ".profile").write_text("echo hello\n")
        home.path.mkdir(mode=0o700)
        self.home = home
        self.bin = folder / ".local" / "bin"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.home.environ["HOME"] = str(self.folder)
        return self.home.run("shims", *words)


@pytest.fixture
def user(home: Home, short_tmp: Path) -> Iterator[User]:
    made = User(home, short_tmp / "user")
    yield made
    home.environ["HOME"] = os.environ["HOME"]


def test_installed_commands_are_found_by_login_shells_and_taken_back(user: User) -> None:
    said = user.run("--install").stdout
    assert f"export PATH={user.bin}:$PATH" in said and "~/.profile" in said
    with (user.folder / ".profile").open("a") as profile:
        profile.write(f"PATH={user.bin}:$PATH\n")
    again = user.run("--install").stdout
    assert "in " + str(user.bin) in again and "export PATH" not in again
    asked = clean("bash", "-lc", "command -v sbatch; sbatch --version", HOME=str(user.folder))
    assert asked.stdout.splitlines()[1] == str(user.bin / "sbatch"), asked
    (user.bin / "mine").touch()
    (user.bin / "squeue").unlink()
    (user.bin / "squeue").write_text("#!/bin/sh\n")
    user.run("--remove")
    assert sorted(path.name for path in user.bin.iterdir()) == ["mine", "squeue"]


@pytest.mark.parametrize("kind", ["file", "link", "other home"])
def test_what_is_not_ours_is_never_overwritten(user: User, short_tmp: Path, kind: str) -> None:
    user.bin.mkdir(parents=True)
    there = user.bin / "squeue"
    if kind == "link":
        there.symlink_to("/usr/bin/env")
    elif kind == "file":
        there.write_text("#!/bin/sh\n# a real one\n")
    else:
        other = Home(short_tmp / "other", HOME=str(user.folder))
        other.path.mkdir(mode=0o700)
        other.ok("shims", "--install")
    before = {path.name: (path.lstat().st_ino, path.read_bytes()) for path in user.bin.iterdir()}
    done = user.run("--install")
    assert (
        done.returncode == 1 and "squeue" in done.stderr + "squeue" and "nothing was written" in done.stderr
    )
    user.run("--remove")
    assert {path.name: (path.lstat().st_ino, path.read_bytes()) for path in user.bin.iterdir()} == before


@pytest.fixture
def machine(home: Home) -> Iterator[Machine]:
    made = Machine(home)
    yield made
    made.close()


class Machine:
    """A process namespace of its own: what runs for other tests is no part of this machine."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._keeper = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "echo here; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout is not None and self._keeper.stdout.readline() == "here\n"
        self._first = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text().strip()

    def ok(self, *words: str) -> str:
        enter = ["nsenter", f"--target={self._first}", "--pid", "--mount"]
        done = subprocess.run(
            [*enter, sys.executable, "-m", "warpdeck.cli.main", *words],
            env=self.home.environ,
            cwd="/tmp",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def found(self) -> dict[str, dict[str, object]]:
        """What runs, by its kind."""
        rows = json.loads(self.ok("status", "--machine", "--json"))["processes"]
        return {row["kind"]: row for row in rows}

    def close(self) -> None:
        self._keeper.communicate("", timeout=60)


@pytest.mark.root
def test_all_of_a_machine_is_listed_and_stopped_jobs_if_asked(machine: Machine) -> None:
    home = machine.home
    mark = f"100{os.getpid()}"
    script = f"env -i setsid sleep {mark}.5 & trap '' TERM; sleep {mark}; sleep {mark}"
    machine.ok("up")
    job = json.loads(machine.ok("submit", "--json", "--no-snapshot", "-o", "/dev/null", "--wrap", script))
    (job_id,) = (str(job["job_id"]),)
    eventually(lambda: len(running(f"sleep\0{mark}")) == 2, what="the job's processes run")
    found = machine.found()
    assert {kind: (row["home"], row["user"], row["jobs"]) for kind, row in found.items()} == {
        "controller": (str(home.path), "root", None),
        "agent": (str(home.path / "agent"), "root", [job_id]),
    }
    said = machine.ok("down", "--machine")
    assert said.count("stopped the") == 2 and f"jobs still running: {job_id};" in said
    assert machine.found() == {}
    assert len(running(f"sleep\0{mark}")) == 2
    machine.ok("up")
    assert machine.found()["agent"]["jobs"] == [job_id]
    assert f"jobs killed: {job_id}" in machine.ok("down", "--machine", "--kill-jobs")
    assert not running(f"sleep\0{mark}")
    assert "no controllers or agents of yours" in machine.ok("down", "--machine")
    machine.ok("up", "--no-local-node")
    eventually(lambda: home.state(job_id) in ("FAILED", "CANCELLED"), what="its end is known")


@pytest.mark.root
def test_root_installs_a_shared_sites_commands_for_everybody(home: Home) -> None:
    home.path.parent.chmod(0o755)
    home.ok("up", "--shared", "--no-local-node")
    steps = (
        "mount -t tmpfs -o mode=755 tmpfs /usr/local/bin || exit 1",
        '"$@" shims --install && stat -c "%a %U" /usr/local/bin/sbatch /usr/local/bin/squeue',
        f"env -i PATH=/usr/local/bin:/usr/bin:/bin sbatch --hold --wrap true; {CLEAN_QUEUE}",
        '"$@" shims --remove; ls -A /usr/local/bin',
    )
    argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        "\n".join(steps),
        "sh",
        sys.executable,
        "-m",
        "warpdeck.cli.main",
    ]
    done = subprocess.run(
        argv, env=home.environ, cwd="/tmp", capture_output=True, text=True, timeout=120, check=False
    )
    assert f"/usr/local/bin, for {home.path}" in done.stdout, done.stderr
    assert done.stdout.count("755 root") == 2
    assert "Submitted batch job 1\n1 PENDING\n" in done.stdout
    assert done.stdout.endswith("removed from /usr/local/bin\n"), "and nothing is left there"


@pytest.mark.root
def test_up_says_why_this_machine_runs_no_jobs_beside_another_agent(home: Home, short_tmp: Path) -> None:
    """In a network namespace of its own, which is a machine to agents."""
    other = Home(short_tmp / "other")
    up = f"{sys.executable} -m warpdeck.cli.main up"
    script = f"unset WARPDECK_SHARE_MACHINE; {up} && WARPDECK_HOME={other.path} {up}; {up} --share-machine"
    script += f"; export WARPDECK_HOME={other.path}; {up[:-2]} down && {up} --share-machine"
    try:
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script],
            env=home.environ,
            cwd="/tmp",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0 and done.stdout.count("controller started") == 3
        assert done.stderr.count("this machine cannot run jobs") == 1, "then it was allowed"
        assert "--share-machine has no effect: the controller is already running" in done.stderr
        assert done.stderr.startswith(
            "this machine cannot run jobs: another agent manages this machine already: pid "
        )
        assert f"of root in {home.path}/agent" in done.stderr
    finally:
        other.close()
