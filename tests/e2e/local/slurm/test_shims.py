"""Slurm's commands for callers with a cleaned environment and for login shells, and the machine's controllers
and agents.
"""

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

CLEAN_QUEUE_COMMAND = "env -i PATH=/usr/local/bin:/usr/bin:/bin squeue -h -o '%i %T'"
CLEAN_ENVIRON = {"PATH": "/usr/bin:/bin", "WARPDECK_SHARE_MACHINE": "1"}
"""The variables that sudo and cron leave, and the one that lets the agents of tests run on the same machine.
"""


def run_clean(*argv: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={**CLEAN_ENVIRON, **environ},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def programs(home: Home) -> Path:
    home.ok("up", "--no-local-node")
    return Path(home.ok("shims", "--folder").strip())


def test_shims_tell_the_version_of_slurm_that_the_commands_print(home: Home, programs: Path) -> None:
    spoken = home.ok("shims", "--version")
    for command in ("sbatch", "srun", "squeue", "scontrol"):
        printed = run_clean(programs / command, "--version").stdout.split()
        assert printed[0] == "slurm" and spoken.startswith(f"Slurm {printed[1]}, ")
    assert "up to 26.05" in spoken


def test_commands_find_their_home_in_a_cleaned_environment(
    home: Home, programs: Path, short_tmp: Path
) -> None:
    """batchspawner calls sbatch like this. The second call goes through the user's submitter."""
    ids = []
    for _ in range(2):
        submitted = run_clean(
            programs / "sbatch", "--parsable", "--hold", "--wrap", "true", HOME=str(short_tmp)
        )
        assert submitted.returncode == 0, submitted.stderr
        ids.append(submitted.stdout.strip())
    assert [home.state(job) for job in ids] == ["PENDING"] * 2
    listed = run_clean(programs / "squeue", "-h", "-o", "%i", HOME=str(short_tmp))
    assert sorted(listed.stdout.split()) == sorted(ids)
    assert sorted(path.name for path in short_tmp.iterdir()) == ["home"], "nothing was created elsewhere"
    home.ok("down")
    assert run_clean(programs / "squeue", "-h", "-o", "%i").stdout.split(), (
        "a home that was set up is started"
    )


@pytest.mark.parametrize("command", ["sbatch", "squeue", "srun", "salloc"])
def test_slurm_commands_start_no_controller_in_an_unprepared_home(
    programs: Path, short_tmp: Path, command: str
) -> None:
    elsewhere = str(short_tmp / "elsewhere")
    argv = {"sbatch": ["--wrap", "true"], "srun": ["true"], "salloc": ["true"]}.get(command, [])
    other = run_clean(programs / command, *argv, WARPDECK_HOME=elsewhere)
    assert other.returncode == 1 and f"but WARPDECK_HOME is {elsewhere}" in other.stderr
    entry = [sys.executable, "-m", "warpdeck.slurm.runtime.entry", command, *argv]
    default = run_clean(*entry, HOME=elsewhere, XDG_STATE_HOME=elsewhere)
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

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        self.home.environ["HOME"] = str(self.folder)
        return self.home.run("shims", *argv)


@pytest.fixture
def user(home: Home, short_tmp: Path) -> Iterator[User]:
    new_user = User(home, short_tmp / "user")
    yield new_user
    home.environ["HOME"] = os.environ["HOME"]


def test_installed_commands_are_found_by_login_shells_and_can_be_removed(user: User) -> None:
    output = user.run("--install").stdout
    assert f"export PATH={user.bin}:$PATH" in output and "~/.profile" in output
    with (user.folder / ".profile").open("a") as profile:
        profile.write(f"PATH={user.bin}:$PATH\n")
    second_output = user.run("--install").stdout
    assert "in " + str(user.bin) in second_output and "export PATH" not in second_output
    login_shell = run_clean("bash", "-lc", "command -v sbatch; sbatch --version", HOME=str(user.folder))
    assert login_shell.stdout.splitlines()[1] == str(user.bin / "sbatch"), login_shell
    (user.bin / "mine").touch()
    (user.bin / "squeue").unlink()
    (user.bin / "squeue").write_text("#!/bin/sh\n")
    user.run("--remove")
    assert sorted(path.name for path in user.bin.iterdir()) == ["mine", "squeue"]


@pytest.mark.parametrize("kind", ["file", "link", "other home"])
def test_files_of_others_are_never_overwritten(user: User, short_tmp: Path, kind: str) -> None:
    user.bin.mkdir(parents=True)
    existing = user.bin / "squeue"
    if kind == "link":
        existing.symlink_to("/usr/bin/env")
    elif kind == "file":
        existing.write_text("#!/bin/sh\n# a real one\n")
    else:
        other = Home(short_tmp / "other", HOME=str(user.folder))
        other.path.mkdir(mode=0o700)
        other.ok("shims", "--install")
    before = {path.name: (path.lstat().st_ino, path.read_bytes()) for path in user.bin.iterdir()}
    result = user.run("--install")
    assert (
        result.returncode == 1
        and "squeue" in result.stderr + "squeue"
        and "nothing was written" in result.stderr
    )
    user.run("--remove")
    assert {path.name: (path.lstat().st_ino, path.read_bytes()) for path in user.bin.iterdir()} == before


@pytest.fixture
def machine(home: Home) -> Iterator[Machine]:
    new_machine = Machine(home)
    yield new_machine
    new_machine.close()


class Machine:
    """A separate process namespace, so that processes of other tests do not belong to this machine."""

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

    def ok(self, *argv: str) -> str:
        enter = ["nsenter", f"--target={self._first}", "--pid", "--mount"]
        result = subprocess.run(
            [*enter, sys.executable, "-m", "warpdeck.cli.main", *argv],
            env=self.home.environ,
            cwd="/tmp",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def processes(self) -> dict[str, dict[str, object]]:
        """Return the running processes by kind."""
        rows = json.loads(self.ok("status", "--machine", "--json"))["processes"]
        return {row["kind"]: row for row in rows}

    def close(self) -> None:
        self._keeper.communicate("", timeout=60)


@pytest.mark.root
def test_all_processes_of_a_machine_are_listed_and_stopped(machine: Machine) -> None:
    home = machine.home
    mark = f"100{os.getpid()}"
    script = f"env -i setsid sleep {mark}.5 & trap '' TERM; sleep {mark}; sleep {mark}"
    machine.ok("up")
    job = json.loads(machine.ok("submit", "--json", "--no-snapshot", "-o", "/dev/null", "--wrap", script))
    (job_id,) = (str(job["job_id"]),)
    eventually(lambda: len(running(f"sleep\0{mark}")) == 2, what="the job's processes run")
    processes = machine.processes()
    assert {kind: (row["home"], row["user"], row["jobs"]) for kind, row in processes.items()} == {
        "controller": (str(home.path), "root", None),
        "agent": (str(home.path / "agent"), "root", [job_id]),
    }
    output = machine.ok("down", "--machine")
    assert output.count("stopped the") == 2 and f"jobs still running: {job_id};" in output
    assert machine.processes() == {}
    assert len(running(f"sleep\0{mark}")) == 2
    machine.ok("up")
    assert machine.processes()["agent"]["jobs"] == [job_id]
    assert f"jobs killed: {job_id}" in machine.ok("down", "--machine", "--kill-jobs")
    assert not running(f"sleep\0{mark}")
    assert "no controllers, gateways or agents of yours" in machine.ok("down", "--machine")
    machine.ok("up", "--no-local-node")
    eventually(lambda: home.state(job_id) in ("FAILED", "CANCELLED"), what="the end of the job is recorded")


@pytest.mark.root
def test_root_can_install_the_commands_of_a_shared_site_for_all_users(home: Home) -> None:
    home.path.parent.chmod(0o755)
    home.ok("up", "--shared", "--no-local-node")
    steps = (
        "mount -t tmpfs -o mode=755 tmpfs /usr/local/bin || exit 1",
        '"$@" shims --install && stat -c "%a %U" /usr/local/bin/sbatch /usr/local/bin/squeue',
        f"env -i PATH=/usr/local/bin:/usr/bin:/bin sbatch --hold --wrap true; {CLEAN_QUEUE_COMMAND}",
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
    result = subprocess.run(
        argv, env=home.environ, cwd="/tmp", capture_output=True, text=True, timeout=120, check=False
    )
    assert f"/usr/local/bin, for {home.path}" in result.stdout, result.stderr
    assert result.stdout.count("755 root") == 2
    assert "Submitted batch job 1\n1 PENDING\n" in result.stdout
    assert result.stdout.endswith("removed from /usr/local/bin\n"), "no file is left there"


@pytest.mark.root
def test_up_reports_that_another_agent_manages_this_machine(home: Home, short_tmp: Path) -> None:
    """The commands run in a new network namespace, which agents treat as a separate machine."""
    other = Home(short_tmp / "other")
    up = f"{sys.executable} -m warpdeck.cli.main up"
    script = f"unset WARPDECK_SHARE_MACHINE; {up} && WARPDECK_HOME={other.path} {up}; {up} --share-machine"
    script += f"; export WARPDECK_HOME={other.path}; {up[:-2]} down && {up} --share-machine"
    try:
        result = subprocess.run(
            ["unshare", "--net", "sh", "-c", script],
            env=home.environ,
            cwd="/tmp",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0 and result.stdout.count("controller started") == 3
        assert result.stderr.count("this machine cannot run jobs") == 1, "the second time it was allowed"
        assert "--share-machine has no effect: the controller is already running" in result.stderr
        assert result.stderr.startswith(
            "this machine cannot run jobs: another agent manages this machine already: pid "
        )
        assert f"of root in {home.path}/agent" in result.stderr
    finally:
        other.close()
