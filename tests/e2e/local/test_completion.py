"""Tab in real shells, with a real controller's jobs and nodes behind it."""

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
"""Until one presses it again."""
REPLY = """
COMP_WORDS=({line}); COMP_CWORD=1; _warpdeck_complete; printf %s "${{COMPREPLY[*]}}"
"""
STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "fish": ["fish", "--no-config", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
LOADS = {
    "bash": 'eval "$(warpdeck completion bash)"',
    "fish": "warpdeck completion fish | source",
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(warpdeck completion zsh)"',
}


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One controller, with warpdeck and Slurm's commands on the PATH."""
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


def held(home: Home) -> str:
    """A job that waits; those of other tests are gone."""
    home.run("cancel", "--me")
    return str(home.json("submit", "--no-snapshot", "--hold", "--wrap", "true")["job_id"])


def node(home: Home) -> str:
    return str(home.json("node", "ls")[0]["name"])


class Typing:
    """An interactive shell with completion loaded."""

    def __init__(self, home: Home, shell: str) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *STARTS[shell]],
            env=home.environ,
            cwd=home.path.parent,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._shown = ""
        self.type(LOADS[shell] + "; echo rea''dy\n")
        self.until("ready")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, words: str) -> None:
        eventually(lambda: self._has(words), timeout_s=SHELL_S, what=f"{words!r} at the terminal")
        self._shown = self._shown.partition(words)[2]

    def _has(self, words: str) -> bool:
        while select.select([self._master], [], [], 0)[0]:
            self._shown += os.read(self._master, 4096).decode(errors="replace")
        return words in self._shown

    def tab(self, words: str) -> None:
        """What is typed is finished to these words, by another Tab if this machine was busy: the first gives up after a second."""
        begun = time.monotonic()

        def shown() -> bool:
            nonlocal begun
            if time.monotonic() - begun > TAB_S:
                begun = time.monotonic()
                self.type("\t")
            return self._has(words)

        self.type("\t")
        eventually(shown, timeout_s=SHELL_S, what=f"{words!r} at the terminal")
        self._shown = self._shown.partition(words)[2]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.mark.parametrize("shell", sorted(STARTS))
def test_tab_finishes_verbs_jobs_and_nodes_as_they_are_typed(site: Home, shell: str) -> None:
    job = held(site)
    typing = Typing(site, shell)
    try:
        typing.type("echo begin; scancel ")
        typing.tab(job)
        typing.type("\n")
        eventually(lambda: site.state(job) == "CANCELLED", what="the job that Tab found is cancelled")
        typing.type("echo $(( 4 + 4 )); warpdeck node dra")
        typing.tab("drain ")
        typing.tab(node(site))
    finally:
        typing.close()


def test_bash_completes_behind_an_equals_sign_and_in_a_list(site: Home) -> None:
    job, script = held(site), site.ok("completion", "bash")
    for words, at, reply in (
        (f"(squeue --nodelist = '{node(site)[:1]}')", 3, node(site)),
        ("(squeue --nodelist =)", 2, node(site)),
        ("(sbatch -d afterok : '')", 4, job),
        ("(sbatch --wra)", 1, "--wrap"),
    ):
        test = f'{script}\nCOMP_WORDS={words}; COMP_CWORD={at}; _warpdeck_complete; printf %s "${{COMPREPLY[*]}}"'
        eventually(lambda test=test, reply=reply: said_by(site, test) == (reply, ""), what=words)


def said_by(site: Home, script: str) -> tuple[str, str]:
    """A bash script's output and errors."""
    done = subprocess.run(
        ["bash", "-c", script], env=site.environ, capture_output=True, text=True, timeout=SHELL_S, check=True
    )
    return done.stdout, done.stderr


def test_fish_shows_what_each_candidate_is(site: Home) -> None:
    job = held(site)
    script = site.ok("completion", "fish")
    (site.path.parent / "train.sh").touch()

    def offered(line: str) -> list[str]:
        test = f"{script}\ncomplete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", test],
            env=site.environ, cwd=site.path.parent, capture_output=True, text=True, timeout=SHELL_S, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.splitlines()

    row = [f"{job}\twrap PENDING root"]
    eventually(lambda: offered("scancel ") == row, what="the job")
    eventually(lambda: offered("warpdeck hold ") == row, what="the job that can be held")
    named = f"--nodelist={node(site)}\tidle, "
    eventually(lambda: "".join(offered("squeue --nodelist=")).startswith(named), what="the node")
    assert "cancel\tcancel jobs, or send them a signal" in offered("warpdeck can")
    assert offered("sbatch tr") == ["train.sh"]


@pytest.mark.parametrize("controller", ["absent", "silent"])
def test_tab_is_quiet_and_soon_over_where_no_controller_answers(
    site: Home, short_tmp: Path, controller: str
) -> None:
    home = short_tmp / "home"
    home.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        if controller == "silent":
            listener.bind(Paths(str(home)).socket)
            listener.listen()
        for line, found in (("scancel ''", ""), ("warpdeck canc", "cancel")):
            done = subprocess.run(
                ["bash", "-c", f"{site.ok('completion', 'bash')}\n{REPLY.format(line=line)}"],
                env={**site.environ, "WARPDECK_HOME": str(home)},
                capture_output=True,
                text=True,
                timeout=SHELL_S,
                check=True,
            )
            assert (done.stdout, done.stderr) == (found, "")
    assert not (home / "controller.lock").exists()


def test_jobs_of_use_to_the_verb_are_offered(site: Home) -> None:
    job = held(site)

    def offered(*line: str) -> list[str]:
        return [
            row.split("\t")[0] for row in site.ok("completion", "--words", "fish", "--", *line).splitlines()
        ]

    assert offered("warpdeck", "suspend", "") == []
    eventually(lambda: offered("warpdeck", "release", "") == [job], what="the job that is held")
    site.ok("cancel", job)
    assert offered("warpdeck", "cancel", "") == []
    for line in (("warpdeck", "show", ""), ("sacct", "-j", "")):
        eventually(lambda line=line: job in offered(*line), what="the job that has ended")
    eventually(lambda: offered("warpdeck", "queue", "--user=") == ["--user=root"], what="the user")
