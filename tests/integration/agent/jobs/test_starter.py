"""The shell that waits at the start gate leaves no trace in the program that it executes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpdeck_agent.start.launch_start import DEFAULT_PATH
from warpdeck_agent.supervisor.starter import SCRIPT, START, LaunchOrder, install, runs_here, start

OWN_WORDS = {"go": "1", "cwd": "2", "in": "3", "out": "4", "err": "5", "mode": "train", "folder": "7"}
"""Variables of the user's environment with names that the start script might use itself."""


def ran(folder: Path, script: str, *argv: str, here: bool, **fields: object) -> tuple[int, str, str]:
    """Run a script; return its exit code, its output, and the data that the gate received."""
    install(str(folder / START), SCRIPT)
    path = folder / "script"
    path.write_text(script)
    path.chmod(0o700)
    env = {"PATH": DEFAULT_PATH, **OWN_WORDS}
    order = LaunchOrder(1, 0, 0, [str(path), *argv], env, str(folder), str(folder / "output"), "", False, {})
    pid, gate = start(order._replace(here=here, **fields), str(folder / START))  # type: ignore[arg-type]
    with gate:
        gate.setblocking(True)
        gate.send(b"go\n")
        _, status = os.waitpid(pid, 0)
        printed = gate.recv(1000).decode()
    output = folder / "output"
    return os.waitstatus_to_exitcode(status), output.read_text() if output.exists() else "", printed


@pytest.mark.parametrize("here", [True, False])
def test_a_script_gets_its_name_arguments_and_variables(tmp_path: Path, here: bool) -> None:
    tell = "".join(f'echo "{name}=${name}"\n' for name in OWN_WORDS)
    script = f'#!/bin/sh\necho "$0 $# $1"\n[ $$ = $SLURM_TASK_PID ] && pwd\n{tell}exit 3\n'
    code, output, message = ran(tmp_path, script, "a b", "c", here=here)
    expected = [f"{tmp_path}/script 2 a b", str(tmp_path), *(f"{n}={v}" for n, v in OWN_WORDS.items())]
    assert (code, output.splitlines(), message) == (3, expected, "")


def test_a_script_in_the_gate_shell_sees_no_names_of_the_gate(tmp_path: Path) -> None:
    known = "command -v fail; command -v ready; set | grep GO=; echo end"
    assert ran(tmp_path, f"#!/bin/sh\n{known}\n", here=True) == (0, "end\n", "")


@pytest.mark.parametrize(("last", "code"), [("false", 1), ("return 4", 4), ("kill -9 $$", -9), ("", 0)])
def test_a_script_in_the_gate_shell_returns_the_code_of_its_last_command(
    tmp_path: Path, last: str, code: int
) -> None:
    assert ran(tmp_path, f"#!/bin/sh\ntrue\n{last}\n", here=True)[0] == code


def test_exit_traps_run_in_the_gate_shell(tmp_path: Path) -> None:
    code, output, _ = ran(tmp_path, "#!/bin/sh\ntrap 'echo over' EXIT\nset -e\nfalse\necho on\n", here=True)
    assert (code, output) == (1, "over\n")


@pytest.mark.parametrize("here", [True, False])
def test_an_inaccessible_folder_is_reported_at_the_gate(tmp_path: Path, here: bool) -> None:
    code, output, message = ran(tmp_path, "#!/bin/sh\necho on\n", here=here, cwd="/nowhere")
    assert (code, output, message) == (1, "", "cannot enter the folder /nowhere\n")


def test_only_sh_scripts_run_in_the_gate_shell() -> None:
    assert runs_here("#!/bin/sh\ntrue\n") and runs_here("#! /bin/sh\n")
    others = ("#!/bin/bash\n", "#!/bin/sh -e\n", "#!/bin/sh\r\n", "#!/usr/bin/env sh\n", "true\n", "")
    assert not any(runs_here(script) for script in others)
