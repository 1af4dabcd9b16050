"""Slurm's commands as a shell's user types them: a thin client, and the controller's worker behind it."""

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
    """A folder of a user's, and the programs on their PATH."""

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
        """(exit code, output, errors)."""
        with self.start(*argv, **environ) as running:
            out, err = running.communicate(timeout=CALL_S)
        return running.returncode, out, err

    def ok(self, *argv: str, **environ: str) -> str:
        code, out, err = self.run(*argv, **environ)
        assert (code, err) == (0, ""), f"{argv}: {code} {err}{self.home.log()}"
        return out


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """One home for all tests of the module; its queue holds job 1 (and for a moment what a test has just run)."""
    with temporary_home() as home:
        work = home.path.parent / "work"
        work.mkdir()
        home.ok("up")
        home.ok("submit", "--hold", "--no-snapshot", "--wrap", "true", cwd=work)
        yield Shell(home, work)


def imported_by(shell: Shell, name: str, *words: str) -> tuple[set[str], str]:
    """(the modules, what it printed)"""
    text = (shell.programs / name).read_text()
    interpreter = text.splitlines()[0].removeprefix("#!").split()
    done = subprocess.run(
        [*interpreter, "-X", "importtime", shell.programs / name, *words],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}, done.stdout


def test_a_command_imports_next_to_nothing_here(shell: Shell) -> None:
    imported, printed = imported_by(shell, "squeue")
    assert "wrap" in printed
    assert "warpdeck_agent.client.command" in imported
    assert imported.isdisjoint({"re", "enum", "json", "socket", "typing", "warpdeck.slurm.viewers.squeue"})


def test_srun_imports_what_every_step_needs_and_nothing_of_terminals(shell: Shell) -> None:
    imported, printed = imported_by(shell, "srun", "echo", "here")
    assert printed == "here\n"
    ours = {name for name in imported if name.startswith("warpdeck")}
    modules = {name for name in ours if not any(other.startswith(f"{name}.") for other in ours)}
    assert "warpdeck_agent.client.step" in modules and len(modules) <= 20, sorted(modules)
    others = {"re", "enum", "json", "socket", "typing", "signal", "termios", "tty", "encodings.ascii"}
    assert imported.isdisjoint(others)


def test_more_at_once_than_may_work_at_once_all_get_their_turn(shell: Shell) -> None:
    running = [shell.start("squeue", "-h", "-j", "1", "-o", "%i") for _ in range(40)]
    said = [each.communicate(timeout=CALL_S) for each in running]
    assert {(each.returncode, *words) for each, words in zip(running, said, strict=True)} == {(0, "1\n", "")}


def test_who_looks_for_ever_keeps_nobody_waiting(shell: Shell) -> None:
    lookers = [shell.start("squeue", "--iterate", "600") for _ in range(18)]
    try:
        for each in lookers:  # each shows the queue once: it has had its turn
            assert each.stdout is not None and each.stdout.readline()
        assert shell.ok("squeue", "-h", "-j", "1", "-o", "%i") == "1\n"
    finally:
        for each in lookers:
            each.send_signal(signal.SIGINT)
            each.communicate(timeout=CALL_S)
    assert {each.returncode for each in lookers} == {130}


def test_times_are_of_the_callers_time_zone(shell: Shell) -> None:
    def submitted(zone: str) -> int:
        return int(shell.ok("squeue", "-h", "-j", "1", "-o", "%V", TZ=zone)[11:13])

    assert (submitted("UTC-5") - submitted("UTC")) % 24 == 5


def test_a_reader_who_leaves_ends_the_command(shell: Shell) -> None:
    piped = f"{shell.programs / 'scontrol'} show config | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", piped],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=True,
    )
    first, code = done.stdout.splitlines()
    assert first.startswith("Configuration data") and code in ("0", "1")
    assert done.stderr == ""


def test_a_slow_reader_gets_all_of_a_long_answer_and_holds_up_nobody(shell: Shell) -> None:
    name = "a" * 150
    job = shell.ok("sbatch", "-H", "--parsable", "-J", name, "-a", "0-9999", "--wrap", "true").strip()
    with shell.start(
        "squeue", "-r", "-h", "-n", name, "-o", "%i %j"
    ) as reading:  # more than a stream's window
        assert reading.stdout is not None
        first = reading.stdout.readline()
        assert shell.ok("squeue", "-h", "-j", "1", "-o", "%i") == "1\n"
        rest = reading.stdout.read().splitlines()
    assert reading.returncode == 0
    assert len({first.strip(), *rest}) == 10_000 and all(line.endswith(name) for line in rest)
    shell.ok("scancel", job)


def test_in_a_folder_that_is_gone_one_sentence_says_so(shell: Shell, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f"mkdir {gone}; cd {gone}; rmdir {gone}; {shell.programs / 'squeue'}"
    done = subprocess.run(
        ["sh", "-c", script],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "squeue: error: the current folder does not exist any more\n  change to one that does\n"
    )


def test_a_word_that_is_no_text_is_refused_in_one_sentence(shell: Shell) -> None:
    code, out, err = shell.run("squeue", "-n", os.fsdecode(b"\xff"))
    assert (code, out) == (1, "")
    assert err.startswith("squeue: error: a name or an argument is not UTF-8 text\n")


def test_the_callers_rights_are_their_own(shell: Shell) -> None:
    assert shell.ok("scontrol", "reconfigure") == ""  # this controller's own user is its admin


def test_hosts_of_a_list_and_what_this_machine_alone_knows_come_too(shell: Shell) -> None:
    assert shell.ok("scontrol", "show", "hostnames", "n[1-2]") == "n1\nn2\n"
    code, _, err = shell.run("scontrol", "listpids", "999")
    assert code == 1 and err
    assert (
        shell.ok("scontrol", "write", "batch_script", "1") == "batch script for job 1 written to slurm-1.sh\n"
    )
    assert "true" in (shell.folder / "slurm-1.sh").read_text()


def test_a_worker_that_is_killed_is_followed_by_another(shell: Shell) -> None:
    shell.ok("sinfo")
    kill(_workers(shell.home))
    eventually(lambda: shell.run("sinfo")[0] == 0)


def _workers(home: Home) -> list[int]:
    """The controller's worker and its forks."""
    return running("warpdeck.slurm.runtime.worker", str(home.path), also_in_environ=True)


def test_options_of_the_sites_own_are_known_here_too(shell: Shell) -> None:
    (shell.home.path / "config.toml").write_text('[submission.plugin_options]\nimage = "required"\n')
    shell.ok("scontrol", "reconfigure")
    code, out, _ = shell.run("sbatch", "-H", "--parsable", "--image=x", "--wrap", "true")
    assert code == 0, out
    assert shell.ok("scancel", out.strip()) == ""
    assert shell.run("sbatch", "--nosuch", "--wrap", "true")[0] == 255


def test_without_a_controller_one_is_started_and_help_needs_none(short_tmp: Path) -> None:
    home = Home(short_tmp / "home")
    try:
        shell = Shell(home, short_tmp)
        assert shell.ok("squeue", "--help").startswith("Lists the jobs")
        assert not (home.path / "controller.lock").exists()
        assert "PARTITION" in shell.ok("sinfo")
        assert home.controller_pid()
    finally:
        home.close()


def test_a_command_that_the_controller_does_not_know_yet_is_refused_with_the_next_step(shell: Shell) -> None:
    """Ours is newer: it was updated while the controller ran on."""
    newer = (
        "from warpdeck.slurm import command_table; command_table.COMMANDS['sfuture'] = ''; "
        "from warpdeck.slurm.runtime import entry; entry.main('sfuture', [])"
    )
    done = subprocess.run(
        [sys.executable, "-c", newer],
        env=shell.home.environ,
        capture_output=True,
        text=True,
        timeout=CALL_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    first, hint = done.stderr.splitlines()
    assert first == f"sfuture: error: this controller (warpdeck {__version__}) has no sfuture"
    assert hint.strip() == f"if yours is newer, {RESTART}"


@pytest.mark.parametrize("name", ["seff", "sreport", "sattach", "strigger", "sbcast"])
def test_commands_that_are_typed_seldom_say_how_they_are_used(shell: Shell, name: str) -> None:
    assert name in shell.ok(name, "--help")
