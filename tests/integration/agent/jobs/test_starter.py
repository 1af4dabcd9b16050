"""The shell that waits at the start gate leaves no trace in the program that it executes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpdeck_agent.start.launch_start import DEFAULT_PATH
from warpdeck_agent.supervisor.starter import SCRIPT, START, LaunchOrder, install, runs_here, start

OWN_WORDS = {"go": "1", "cwd": "2", "in": "3", "out": "4", "err": "5", "mode": "train", "folder": "7"}
"""Variables of the user's environment with names that the start script might use itself."""


def ran(folder: Path, script: str, *words: str, here: bool, **fields: object) -> tuple[int, str, str]:
    """Run a script; return its exit code, its output, and the data that the gate received."""
    install(str(folder / START), SCRIPT)
    path = folder / "script"
    path.write_text(script)
    path.chmod(0o700)
    env = {"PATH": DEFAULT_PATH, **OWN_WORDS}
    order = LaunchOrder(1, 0, 0, [str(path), *words], env, str(folder), str(folder / "output"), "", False, {})
    pid, gate = start(order._replace(here=here, **fields), str(folder / START))  # type: ignore[arg-type]
    with gate:
        gate.setblocking(True)
        gate.send(b"go\n")
        _, status = os.waitpid(pid, 0)
        said = gate.recv(1000).decode()
    output = folder / "output"
    return os.waitstatus_to_exitcode(status), output.read_text() if output.exists() else "", said


@pytest.mark.parametrize("here", [True, False])
def test_a_script_gets_its_name_its_words_and_its_user_s_variables(tmp_path: Path, here: bool) -> None:
    tell = "".join(f'echo "{name}=${name}"\n' for name in OWN_WORDS)
    script = f'#!/bin/sh\necho "$0 $# $1"\n[ $$ = $SLURM_TASK_PID ] && pwd\n{tell}exit 3\n'
    code, output, said = ran(tmp_path, script, "a b", "c", here=here)
    expected = [f"{tmp_path}/script 2 a b", str(tmp_path), *(f"{n}={v}" for n, v in OWN_WORDS.items())]
    assert (code, output.splitlines(), said) == (3, expected, "")


def test_a_script_that_runs_here_finds_no_name_of_the_gate_s(tmp_path: Path) -> None:
    known = "command -v fail; command -v ready; set | grep GO=; echo end"
    assert ran(tmp_path, f"#!/bin/sh\n{known}\n", here=True) == (0, "end\n", "")


@pytest.mark.parametrize(("last", "code"), [("false", 1), ("return 4", 4), ("kill -9 $$", -9), ("", 0)])
def test_a_script_that_runs_here_ends_as_its_last_command_does(tmp_path: Path, last: str, code: int) -> None:
    assert ran(tmp_path, f"#!/bin/sh\ntrue\n{last}\n", here=True)[0] == code


def test_what_a_script_leaves_to_its_end_is_done_where_it_runs_here(tmp_path: Path) -> None:
    code, output, _ = ran(tmp_path, "#!/bin/sh\ntrap 'echo over' EXIT\nset -e\nfalse\necho on\n", here=True)
    assert (code, output) == (1, "over\n")


@pytest.mark.parametrize("here", [True, False])
def test_a_folder_that_cannot_be_entered_is_said_at_the_gate(tmp_path: Path, here: bool) -> None:
    code, output, said = ran(tmp_path, "#!/bin/sh\necho on\n", here=here, cwd="/nowhere")
    assert (code, output, said) == (1, "", "cannot enter the folder /nowhere\n")


def test_only_scripts_for_the_gate_s_own_shell_run_there() -> None:
    assert runs_here("#!/bin/sh\ntrue\n") and runs_here("#! /bin/sh\n")
    others = ("#!/bin/bash\n", "#!/bin/sh -e\n", "#!/bin/sh\r\n", "#!/usr/bin/env sh\n", "true\n", "")
    assert not any(runs_here(script) for script in others)
