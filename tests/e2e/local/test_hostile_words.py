"""Words of users that would act on a terminal: no command lets them act there, and Slurm's print them as they are into a pipe."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.home import Home, temporary_home
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

WORDS = "é\u00a0\x1b]52;c;AAAA\x07\x1b[2J\u202eb\u2066c\x9bd\u200f\x7f\rFORGED\nFORGED=1\x0bFORGED"
"""An accent and a space that stay; OSC 52, CSI, marks of direction, C1, and three ways to begin a line."""
ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
SLURMS, OURS = "warpdeck.slurm.runtime.entry", "warpdeck.cli.main"
IN_PIPES = (
    ("squeue", "-h", "-o", "%j"),
    ("squeue", "-h", "-s", "-o", "%j"),
    ("squeue", "-h", "-o", "%k"),
    ("squeue", "-h", "-o", "%Z"),
    ("scontrol", "show", "job"),
    ("scontrol", "-o", "show", "job"),
    ("scontrol", "show", "step"),
    ("scontrol", "show", "node"),
    ("sacct", "-n", "-P", "-o", "JobName,Comment,WorkDir"),
    ("sinfo", "-h", "-o", "%E"),
)
"""Slurm's commands that print such words, which stand in their output into a pipe as they are."""
VALUES = (
    *((SLURMS, *words) for words in IN_PIPES),
    (SLURMS, "sacct", "-o", "JobName%200,Comment%200"),
    (SLURMS, "scontrol", "--json", "show", "job"),
    (SLURMS, "squeue", "--yaml"),
    (OURS, "queue"),
    (OURS, "queue", "--json"),
    (OURS, "queue", "--all"),
    (OURS, "show", "1"),
    (OURS, "show", "1", "--environment"),
    (OURS, "node", "ls"),
    (OURS, "snapshot", "show", "3"),
    (OURS, "screen", "queue", "--plain"),
)
OWN_LINES = (
    (OURS, "snapshot", "diff", "3"),
    (OURS, "show", WORDS),
    (OURS, WORDS),
    (SLURMS, "squeue", "-u", WORDS),
    (SLURMS, "scontrol", "show", "hostnames", WORDS),
)
"""Lines of a file, and words that the caller wrote, keep their line feeds."""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """Job 1 runs a step, job 2 is held, job 3 has a snapshot: all are called by the words, and the node is drained with them."""
    with temporary_home() as made:
        made.ok("up")
        made.wait_for_idle_node()
        folder = made.path / WORDS
        folder.mkdir()
        words = ("--job-name", WORDS, "--comment", WORDS)
        named = (*words, "--chdir", str(folder), "--no-snapshot")
        subprocess.run(
            [sys.executable, "-m", OURS, "submit", *named, "--wrap", 'srun --job-name="$WORDS" sleep 1000'],
            cwd=folder,
            env={**made.environ, "WORDS": WORDS},
            check=True,
            timeout=60,
        )
        made.ok("submit", *named, "--hold", "--wrap", "true")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        (folder / WORDS).write_text(WORDS)
        done = made.json(
            "submit", *words, "--chdir", str(folder), "--require-snapshot", "--hold", "--wrap", "true"
        )
        assert done["job_id"] == 3
        (folder / WORDS).write_text(f"another {WORDS}")
        (node,) = made.json("node", "ls")
        eventually(
            lambda: any(step["name"] == WORDS for step in made.json("show", "1")["steps"]),
            what="job 1 runs its step",
        )
        made.ok("node", "drain", node["name"], WORDS)
        yield made


def test_values_reach_pipes_as_they_are(home: Home) -> None:
    for words in IN_PIPES:
        argv = [sys.executable, "-m", SLURMS, *words]
        piped = subprocess.run(argv, env=home.environ, capture_output=True, check=True, timeout=60)
        assert WORDS.encode() in piped.stdout, (words, piped)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_name_of_a_job_is_a_candidate_of_completion(home: Home, shell: str) -> None:
    offered = home.ok("completion", "--words", shell, "--", "warpdeck", "cancel", "")
    assert not ACTING.search(offered)
    lines = offered.splitlines()
    assert len(lines) == 3 and not any(line.startswith("FORGED") for line in lines)
    assert shell == "bash" or all("FORGED" in line for line in lines)


def test_values_act_on_no_terminal(home: Home) -> None:
    for words in (*VALUES, *OWN_LINES):
        argv = [sys.executable, "-m", *words]
        shown = Terminal(argv, environ=home.environ, cwd=home.path).rest().replace("\r\n", "\n")
        assert "FORGED" in shown, words
        assert not ACTING.search(shown), (words, shown)
        if words in VALUES:
            assert "\nFORGED" not in shown, (words, shown)


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_the_reason_of_a_node_acts_on_no_terminal_of_whoever_waits(home: Home, command: str) -> None:
    waiting = Terminal([sys.executable, "-m", SLURMS, command, "true"], environ=home.environ, cwd=home.path)
    assert "\r\nFORGED" not in waiting.until("?FORGED=1?FORGED)")
    waiting.process.send_signal(signal.SIGINT)
    waiting.rest()
