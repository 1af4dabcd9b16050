"""Slurm's commands from a user's shell: a thin client, and the controller's worker behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.processes import kill, running
from tests.support.waiting import eventually

from warpdeck import __version__
from warpdeck.base.errors import RESTART

CALL_S = 60.0


class Shell:
    """A folder of a user, and the programs on the user's PATH."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.programs = Path(home.ok("shims", "--folder").strip())

    def start(self, *argv: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.programs / argv[0], *argv[1:]],
            cwd=self.folder,
            env={**self.home.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *argv: str, **environ: str) -> tuple[int, str, str]:
        """Return (exit code, output, errors)."""
        with self.start(*argv, **environ) as process:
            out, err = process.communicate(timeout=CALL_S)
        return process.returncode, out, err

    def ok(self, *argv: str, **environ: str) -> str:
        code, out, err = self.run(*argv, **environ)
        assert (code, err) == (0, ""), f"{argv}: {code} {err}{self.home.log()}"
        return out


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """One home for all tests of the module. Its queue holds job 1, and for a moment the job of an earlier
    test.
    """
    with temporary_home() as home:
        work = home.path.parent / "work"
        work.mkdir()
        home.ok("up")
        home.ok("submit", "--hold", "--no-snapshot", "--wrap", "true", cwd=work)
        yield Shell(home, work)


def imported_by(shell: Shell, name: str, *argv: str) -> tuple[set[str], str]:
    """Return the imported modules and the output of a program."""
    text = (shell.programs / name).read_text()
    interpreter = text.splitlines()[0].removeprefix("#!").split()
    result = subprocess.run(
        [*interpreter, "-X", "importtime", shell.programs / name, *argv],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}, result.stdout


def test_a_command_imports_almost_no_modules(shell: Shell) -> None:
    imported, printed = imported_by(shell, "squeue")
    assert "wrap" in printed
    assert "warpdeck_agent.client.command" in imported
    assert imported.isdisjoint({"re", "enum", "json", "socket", "typing", "warpdeck.slurm.viewers.squeue"})


def test_srun_imports_only_the_modules_of_every_step(shell: Shell) -> None:
    imported, printed = imported_by(shell, "srun", "echo", "here")
    assert printed == "here\n"
    our_modules = {name for name in imported if name.startswith("warpdeck")}
    modules = {name for name in our_modules if not any(other.startswith(f"{name}.") for other in our_modules)}
    assert "warpdeck_agent.client.step" in modules and len(modules) <= 20, sorted(modules)
    unneeded = {"re", "enum", "json", "socket", "typing", "signal", "termios", "tty", "encodings.ascii"}
    assert imported.isdisjoint(unneeded)


def test_more_commands_than_worker_slots_all_finish(shell: Shell) -> None:
    processes = [shell.start("squeue", "-h", "-j", "1", "-o", "%i") for _ in range(40)]
    outputs = [process.communicate(timeout=CALL_S) for process in processes]
    assert {(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)} == {
        (0, "1\n", "")
    }


def test_endless_commands_delay_no_others(shell: Shell) -> None:
    watchers = [shell.start("squeue", "--iterate", "600") for _ in range(18)]
    try:
        for watcher in watchers:  # After its first output, the command has left the worker.
            assert watcher.stdout is not None and watcher.stdout.readline()
        assert shell.ok("squeue", "-h", "-j", "1", "-o", "%i") == "1\n"
    finally:
        for watcher in watchers:
            watcher.send_signal(signal.SIGINT)
            watcher.communicate(timeout=CALL_S)
    assert {watcher.returncode for watcher in watchers} == {130}


def test_times_are_in_the_time_zone_of_the_caller(shell: Shell) -> None:
    def submission_hour(zone: str) -> int:
        return int(shell.ok("squeue", "-h", "-j", "1", "-o", "%V", TZ=zone)[11:13])

    assert (submission_hour("UTC-5") - submission_hour("UTC")) % 24 == 5


def test_a_closed_pipe_ends_the_command(shell: Shell) -> None:
    piped = f"{shell.programs / 'scontrol'} show config | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", piped],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=True,
    )
    first, code = result.stdout.splitlines()
    assert first.startswith("Configuration data") and code in ("0", "1")
    assert result.stderr == ""


def test_a_slow_reader_gets_a_long_answer_and_delays_no_others(shell: Shell) -> None:
    name = "a" * 150
    job = shell.ok("sbatch", "-H", "--parsable", "-J", name, "-a", "0-9999", "--wrap", "true").strip()
    with shell.start(
        "squeue", "-r", "-h", "-n", name, "-o", "%i %j"
    ) as squeue:  # The output is larger than a stream's window.
        assert squeue.stdout is not None
        first = squeue.stdout.readline()
        assert shell.ok("squeue", "-h", "-j", "1", "-o", "%i") == "1\n"
        other_lines = squeue.stdout.read().splitlines()
    assert squeue.returncode == 0
    assert len({first.strip(), *other_lines}) == 10_000 and all(line.endswith(name) for line in other_lines)
    shell.ok("scancel", job)


def test_a_removed_working_folder_is_reported(shell: Shell, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f"mkdir {gone}; cd {gone}; rmdir {gone}; {shell.programs / 'squeue'}"
    result = subprocess.run(
        ["sh", "-c", script],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr == (
        "squeue: error: the current folder does not exist any more\n  change to one that does\n"
    )


def test_an_argument_that_is_not_utf_8_is_refused(shell: Shell) -> None:
    code, out, err = shell.run("squeue", "-n", os.fsdecode(b"\xff"))
    assert (code, out) == (1, "")
    assert err.startswith("squeue: error: a name or an argument is not UTF-8 text\n")


def test_a_command_has_the_rights_of_its_caller(shell: Shell) -> None:
    assert shell.ok("scontrol", "reconfigure") == ""  # The user of this controller is its admin.


def test_commands_with_local_data_work_too(shell: Shell) -> None:
    assert shell.ok("scontrol", "show", "hostnames", "n[1-2]") == "n1\nn2\n"
    code, _, err = shell.run("scontrol", "listpids", "999")
    assert code == 1 and err
    assert (
        shell.ok("scontrol", "write", "batch_script", "1") == "batch script for job 1 written to slurm-1.sh\n"
    )
    assert "true" in (shell.folder / "slurm-1.sh").read_text()


def test_a_killed_worker_is_replaced(shell: Shell) -> None:
    shell.ok("sinfo")
    kill(_workers(shell.home))
    eventually(lambda: shell.run("sinfo")[0] == 0)


def _workers(home: Home) -> list[int]:
    """Return the pids of the controller's worker and its forks."""
    return running("warpdeck.slurm.runtime.worker", str(home.path), also_in_environ=True)


def test_plugin_options_of_the_site_are_accepted(shell: Shell) -> None:
    (shell.home.path / "config.toml").write_text('[submission.plugin_options]\nimage = "required"\n')
    shell.ok("scontrol", "reconfigure")
    code, out, _ = shell.run("sbatch", "-H", "--parsable", "--image=x", "--wrap", "true")
    assert code == 0, out
    assert shell.ok("scancel", out.strip()) == ""
    assert shell.run("sbatch", "--nosuch", "--wrap", "true")[0] == 255


def test_a_command_starts_a_controller_but_help_does_not(short_tmp: Path) -> None:
    home = Home(short_tmp / "home")
    try:
        shell = Shell(home, short_tmp)
        assert shell.ok("squeue", "--help").startswith("Lists the jobs")
        assert not (home.path / "controller.lock").exists()
        assert "PARTITION" in shell.ok("sinfo")
        assert home.controller_pid()
    finally:
        home.close()


def test_a_command_unknown_to_the_controller_is_refused_with_the_next_step(shell: Shell) -> None:
    """The client is newer, because it was updated while the controller ran."""
    program = (
        "from warpdeck.slurm import command_table; command_table.COMMANDS['sfuture'] = ''; "
        "from warpdeck.slurm.runtime import entry; entry.main('sfuture', [])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
    )
    assert (result.returncode, result.stdout) == (1, "")
    first, hint = result.stderr.splitlines()
    assert first == f"sfuture: error: this controller (warpdeck {__version__}) has no sfuture"
    assert hint.strip() == f"if yours is newer, {RESTART}"


@pytest.mark.parametrize("name", ["seff", "sreport", "sattach", "strigger", "sbcast"])
def test_rarely_used_commands_have_a_help_text(shell: Shell, name: str) -> None:
    assert name in shell.ok(name, "--help")
