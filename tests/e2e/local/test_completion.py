"""Completion with Tab in real shells, with the jobs and nodes of a real controller."""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths

pytestmark = pytest.mark.shells
SHELL_S = 60.0
TAB_S = 5.0
"""Time after which a user would press Tab again."""
COMPLETE_IN_BASH = """
COMP_WORDS=({line}); COMP_CWORD=1; _warpdeck_complete; printf %s "${{COMPREPLY[*]}}"
"""
SHELL_ARGV = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "fish": ["fish", "--no-config", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
LOAD_COMPLETION = {
    "bash": 'eval "$(warpdeck completion bash)"',
    "fish": "warpdeck completion fish | source",
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(warpdeck completion zsh)"',
}


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """A home with warpdeck and Slurm's commands on the PATH."""
    with tempfile.TemporaryDirectory(prefix="wdt", dir="/tmp") as folder:
        home = Home(Path(folder) / "home")
        home.ok("up")
        home.wait_for_idle_node()
        shims = home.ok("shims", "--folder").strip()
        warpdeck = Path(shims) / "warpdeck"
        warpdeck.write_text(f'#!/bin/sh\nexec {sys.executable} -m warpdeck.cli.main "$@"\n')
        warpdeck.chmod(0o700)
        home.environ |= {
            "PATH": f"{shims}:{os.environ['PATH']}",
            "TERM": "dumb",
            "HOME": folder,
            "LC_ALL": "C.UTF-8",
        }
        yield home
        home.close()


def held_job(home: Home) -> str:
    """Cancel the jobs of other tests, and return the id of a new held job."""
    home.run("cancel", "--me")
    return str(home.json("submit", "--no-snapshot", "--hold", "--wrap", "true")["job_id"])


def node_name(home: Home) -> str:
    return str(home.json("node", "ls")[0]["name"])


class Typing:
    """An interactive shell with completion loaded."""

    def __init__(self, home: Home, shell: str) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *SHELL_ARGV[shell]],
            env=home.environ,
            cwd=home.path.parent,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._shown = ""
        self.type(LOAD_COMPLETION[shell] + "; echo rea''dy\n")
        self.until("ready")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, text: str) -> None:
        eventually(lambda: self._has(text), timeout_s=SHELL_S, what=f"{text!r} at the terminal")
        self._shown = self._shown.partition(text)[2]

    def _has(self, text: str) -> bool:
        while select.select([self._master], [], [], 0)[0]:
            self._shown += os.read(self._master, 4096).decode(errors="replace")
        return text in self._shown

    def tab(self, text: str) -> None:
        """Press Tab and wait until it completes to this text.

        If the machine is busy, Tab is pressed again, because the first completion gives up after a second.
        """
        pressed_at = time.monotonic()

        def shown() -> bool:
            nonlocal pressed_at
            if time.monotonic() - pressed_at > TAB_S:
                pressed_at = time.monotonic()
                self.type("\t")
            return self._has(text)

        self.type("\t")
        eventually(shown, timeout_s=SHELL_S, what=f"{text!r} at the terminal")
        self._shown = self._shown.partition(text)[2]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.mark.parametrize("shell", sorted(SHELL_ARGV))
def test_tab_completes_verbs_jobs_and_nodes(site: Home, shell: str) -> None:
    job = held_job(site)
    typing = Typing(site, shell)
    try:
        typing.type("echo begin; scancel ")
        typing.tab(job)
        typing.type("\n")
        eventually(lambda: site.state(job) == "CANCELLED", what="the completed job is cancelled")
        typing.type("echo $(( 4 + 4 )); warpdeck node dra")
        typing.tab("drain ")
        typing.tab(node_name(site))
    finally:
        typing.close()


def test_bash_completes_after_an_equals_sign_and_in_a_list(site: Home) -> None:
    job, script = held_job(site), site.ok("completion", "bash")
    for comp_words, index, expected in (
        (f"(squeue --nodelist = '{node_name(site)[:1]}')", 3, node_name(site)),
        ("(squeue --nodelist =)", 2, node_name(site)),
        ("(sbatch -d afterok : '')", 4, job),
        ("(sbatch --wra)", 1, "--wrap"),
    ):
        test = f'{script}\nCOMP_WORDS={comp_words}; COMP_CWORD={index}; _warpdeck_complete; printf %s "${{COMPREPLY[*]}}"'
        eventually(
            lambda test=test, expected=expected: run_bash(site, test) == (expected, ""), what=comp_words
        )


def run_bash(site: Home, script: str) -> tuple[str, str]:
    """Return the output and errors of a bash script."""
    done = subprocess.run(
        ["bash", "-c", script], env=site.environ, capture_output=True, text=True, timeout=SHELL_S, check=True
    )
    return done.stdout, done.stderr


def test_fish_shows_a_description_of_each_candidate(site: Home) -> None:
    job = held_job(site)
    script = site.ok("completion", "fish")
    (site.path.parent / "train.sh").touch()

    def candidates(line: str) -> list[str]:
        test = f"{script}\ncomplete -C '{line}'"
        result = subprocess.run(
            ["fish", "--no-config", "-c", test],
            env=site.environ, cwd=site.path.parent, capture_output=True, text=True, timeout=SHELL_S, check=True,
        )  # fmt: skip
        assert result.stderr == ""
        return result.stdout.splitlines()

    row = [f"{job}\twrap PENDING root"]
    eventually(lambda: candidates("scancel ") == row, what="the job")
    eventually(lambda: candidates("warpdeck hold ") == row, what="the job that can be held")
    expected_start = f"--nodelist={node_name(site)}\tidle, "
    eventually(lambda: "".join(candidates("squeue --nodelist=")).startswith(expected_start), what="the node")
    assert "cancel\tcancel jobs, or send them a signal" in candidates("warpdeck can")
    assert candidates("sbatch tr") == ["train.sh"]


@pytest.mark.parametrize("controller", ["absent", "silent"])
def test_completion_without_a_controller_is_silent_and_fast(
    site: Home, short_tmp: Path, controller: str
) -> None:
    home = short_tmp / "home"
    home.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        if controller == "silent":
            listener.bind(Paths(str(home)).socket)
            listener.listen()
        for line, expected in (("scancel ''", ""), ("warpdeck canc", "cancel")):
            result = subprocess.run(
                ["bash", "-c", f"{site.ok('completion', 'bash')}\n{COMPLETE_IN_BASH.format(line=line)}"],
                env={**site.environ, "WARPDECK_HOME": str(home)},
                capture_output=True,
                text=True,
                timeout=SHELL_S,
                check=True,
            )
            assert (result.stdout, result.stderr) == (expected, "")
    assert not (home / "controller.lock").exists()


def test_completion_offers_jobs_in_suitable_states(site: Home) -> None:
    job = held_job(site)

    def candidates(*line: str) -> list[str]:
        return [
            row.split("\t")[0] for row in site.ok("completion", "--words", "fish", "--", *line).splitlines()
        ]

    assert candidates("warpdeck", "suspend", "") == []
    eventually(lambda: candidates("warpdeck", "release", "") == [job], what="the job that is held")
    site.ok("cancel", job)
    assert candidates("warpdeck", "cancel", "") == []
    for line in (("warpdeck", "show", ""), ("sacct", "-j", "")):
        eventually(lambda line=line: job in candidates(*line), what="the job that has ended")
    eventually(lambda: candidates("warpdeck", "queue", "--user=") == ["--user=root"], what="the user")
