"""Control characters in users' texts: no command sends them to a terminal, and Slurm's commands write them
unchanged into a pipe.
"""

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

HOSTILE_TEXT = "é\u00a0\x1b]52;c;AAAA\x07\x1b[2J\u202eb\u2066c\x9bd\u200f\x7f\rFORGED\nFORGED=1\x0bFORGED"
"""An accent and a space that stay, then OSC 52, CSI, direction marks, C1 characters, and three ways to start
a line.
"""
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
SLURM_COMMANDS, WARPDECK_COMMANDS = "warpdeck.slurm.runtime.entry", "warpdeck.cli.main"
PIPE_COMMANDS = (
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
"""Slurm's commands that print these texts. Into a pipe they write the texts unchanged."""
VALUE_COMMANDS = (
    *((SLURM_COMMANDS, *command) for command in PIPE_COMMANDS),
    (SLURM_COMMANDS, "sacct", "-o", "JobName%200,Comment%200"),
    (SLURM_COMMANDS, "scontrol", "--json", "show", "job"),
    (SLURM_COMMANDS, "squeue", "--yaml"),
    (WARPDECK_COMMANDS, "queue"),
    (WARPDECK_COMMANDS, "queue", "--json"),
    (WARPDECK_COMMANDS, "queue", "--all"),
    (WARPDECK_COMMANDS, "show", "1"),
    (WARPDECK_COMMANDS, "show", "1", "--environment"),
    (WARPDECK_COMMANDS, "node", "ls"),
    (WARPDECK_COMMANDS, "snapshot", "show", "3"),
    (WARPDECK_COMMANDS, "screen", "queue", "--plain"),
)
LINES_OF_THE_CALLER = (
    (WARPDECK_COMMANDS, "snapshot", "diff", "3"),
    (WARPDECK_COMMANDS, "show", HOSTILE_TEXT),
    (WARPDECK_COMMANDS, HOSTILE_TEXT),
    (SLURM_COMMANDS, "squeue", "-u", HOSTILE_TEXT),
    (SLURM_COMMANDS, "scontrol", "show", "hostnames", HOSTILE_TEXT),
)
"""Lines of a file, and arguments of the caller, keep their line feeds."""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """Job 1 runs a step, job 2 is held, and job 3 has a snapshot. All of them, and the drain reason of the
    node, contain the text.
    """
    with temporary_home() as new_home:
        new_home.ok("up")
        new_home.wait_for_idle_node()
        folder = new_home.path / HOSTILE_TEXT
        folder.mkdir()
        name_options = ("--job-name", HOSTILE_TEXT, "--comment", HOSTILE_TEXT)
        job_options = (*name_options, "--chdir", str(folder), "--no-snapshot")
        subprocess.run(
            [
                sys.executable,
                "-m",
                WARPDECK_COMMANDS,
                "submit",
                *job_options,
                "--wrap",
                'srun --job-name="$WORDS" sleep 1000',
            ],
            cwd=folder,
            env={**new_home.environ, "WORDS": HOSTILE_TEXT},
            check=True,
            timeout=60,
        )
        new_home.ok("submit", *job_options, "--hold", "--wrap", "true")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        (folder / HOSTILE_TEXT).write_text(HOSTILE_TEXT)
        submitted = new_home.json(
            "submit", *name_options, "--chdir", str(folder), "--require-snapshot", "--hold", "--wrap", "true"
        )
        assert submitted["job_id"] == 3
        (folder / HOSTILE_TEXT).write_text(f"another {HOSTILE_TEXT}")
        (node,) = new_home.json("node", "ls")
        eventually(
            lambda: any(step["name"] == HOSTILE_TEXT for step in new_home.json("show", "1")["steps"]),
            what="job 1 runs its step",
        )
        new_home.ok("node", "drain", node["name"], HOSTILE_TEXT)
        yield new_home


def test_values_are_written_unchanged_into_pipes(home: Home) -> None:
    for command in PIPE_COMMANDS:
        argv = [sys.executable, "-m", SLURM_COMMANDS, *command]
        piped = subprocess.run(argv, env=home.environ, capture_output=True, check=True, timeout=60)
        assert HOSTILE_TEXT.encode() in piped.stdout, (command, piped)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_candidates_contain_no_control_characters(home: Home, shell: str) -> None:
    candidates = home.ok("completion", "--words", shell, "--", "warpdeck", "cancel", "")
    assert not CONTROL_CHARACTERS.search(candidates)
    lines = candidates.splitlines()
    assert len(lines) == 3 and not any(line.startswith("FORGED") for line in lines)
    assert shell == "bash" or all("FORGED" in line for line in lines)


def test_values_on_a_terminal_contain_no_control_characters(home: Home) -> None:
    for command in (*VALUE_COMMANDS, *LINES_OF_THE_CALLER):
        argv = [sys.executable, "-m", *command]
        shown = Terminal(argv, environ=home.environ, cwd=home.path).rest().replace("\r\n", "\n")
        assert "FORGED" in shown, command
        assert not CONTROL_CHARACTERS.search(shown), (command, shown)
        if command in VALUE_COMMANDS:
            assert "\nFORGED" not in shown, (command, shown)


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_the_pending_reason_contains_no_control_characters(home: Home, command: str) -> None:
    waiting = Terminal(
        [sys.executable, "-m", SLURM_COMMANDS, command, "true"], environ=home.environ, cwd=home.path
    )
    assert "\r\nFORGED" not in waiting.until("?FORGED=1?FORGED)")
    waiting.process.send_signal(signal.SIGINT)
    waiting.rest()
