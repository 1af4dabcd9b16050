"""Our messages about arguments of srun and salloc, compared with those of the real commands."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.property.real_commands import ENVIRON, UNREACHED, VALUES, shown_by, terminates, without_controller
from tests.slurm_parity.peer.real_slurm import PACKAGES
from tests.support.command_lines import validate_launch

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SALLOC_22_05, SRUN_22_05
from warpdeck.notation.options.variables import SALLOC_VARIABLES, SRUN_VARIABLES

COMMAND_S = 60.0
TABLES = {"salloc": SALLOC_22_05, "srun": SRUN_22_05}
VARIABLES = {"salloc": SALLOC_VARIABLES, "srun": SRUN_VARIABLES}
STEP_VALUES = {
    "cpu-bind": ["none", "v,rank", "map_cpu:0,1*2", "mask_cpu:x", "cores", "x", "map_cpu:", "none,v"],
    "immediate": ["1", "x", "0"],
    "kill-on-bad-exit": ["0", "1", "x"],
    "kill-command": ["TERM", "SIGKILL", "9", "x"],
    "msg-timeout": ["1", "0", "x"],
    "overlap": [""],
    "resv-ports": ["2", "x"],
    "send-libs": ["yes", "no", "x"],
    "threads": ["3", "0", "x"],
    "wait": ["0", "5", "x", "-1"],
}
FLAGS = ["--exclusive", "--overcommit", "-s", "--nice", "-k", "--hold", "-H", "-I"]
_KNOWN = {
    command: {name: values for name, values in (VALUES | STEP_VALUES).items() if name in known.options}
    for command, known in TABLES.items()
}
_EXCLUDED = frozenset({"begin", "chdir", "distribution"})
"""Excluded options: an invalid time is not shown, a missing folder is found later, and SLURM_DIST_PLANESIZE
is a value.
"""
_LATER_VARIABLES = frozenset({"SRUN_ERROR", "SRUN_INPUT", "SRUN_OUTPUT"})
"""Variables of later versions of Slurm, which 22.05 does not read."""


class Launcher:
    """The real commands with an unreachable controller."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environ = {**ENVIRON, **without_controller(folder)}

    def result_of(
        self, command: str, words: list[str], environ: dict[str, str]
    ) -> tuple[int, list[str], object]:
        """Return the exit code (0 if the arguments are accepted), the errors, and the options shown."""
        done = subprocess.run(
            [str(PACKAGES / "root/usr/bin" / command), "-vv", *words, "true"],
            cwd=self.folder,
            env=self._environ | environ,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_S,
            check=False,
        )
        output = done.stderr.decode()
        if UNREACHED in output:
            return 0, [], shown_by(command, output)
        errors = [
            line
            for line in output.splitlines()
            if line.startswith((f"{command}: error", f"{command}: fatal"))
        ]
        return done.returncode, [line for line in errors if "Ignoring" not in line], shown_by(command, output)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    return Launcher(tmp_path_factory.mktemp("launch"))


def _word(name: str, value: str) -> str:
    return f"--{name}={value}" if value else f"--{name}"


@st.composite
def _lines(draw: st.DrawFn) -> tuple[str, list[str], dict[str, str]]:
    command = draw(st.sampled_from(sorted(TABLES)))
    known = _KNOWN[command]
    names = draw(st.lists(st.sampled_from(sorted(known.keys() - _EXCLUDED)), max_size=4))
    words = [_word(name, draw(st.sampled_from(known[name]))) for name in names]
    words += draw(st.lists(st.sampled_from(FLAGS), max_size=1))
    pairs = [
        (variable, name)
        for variable, name in VARIABLES[command]
        if name in known.keys() - _EXCLUDED and variable not in _LATER_VARIABLES
    ]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=2))
    return command, words, {variable: draw(st.sampled_from(known[name])) for variable, name in chosen}


@pytest.mark.slurm
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(line=("srun", ["--nodelist=n[1-3]", "--ntasks=2"], {}))
@given(line=_lines().filter(lambda line: terminates(" ".join(line[1]))))
def test_messages_and_options_equal_those_of_real_srun_and_salloc(
    real: Launcher, line: tuple[str, list[str], dict[str, str]]
) -> None:
    command, words, environ = line
    place = OptionSource(
        cwd=str(real.folder), environ=ENVIRON | environ, now=time.time(), is_root=True, user_id=_number
    )
    found = validate_launch([*words, "true"], place, known=TABLES[command])
    fault = found.rejection
    code = 0 if fault is None else fault.exit_code
    # The answer to --hint=help goes to the other stream.
    errors = [] if fault is None or fault.is_answer else [f"{command}: {each}" for each in fault.lines]
    real_code, real_errors, shown = real.result_of(command, words, environ)
    assert (code, found.shown) == (real_code, shown), (errors, real_errors)
    assert set(errors) <= set(real_errors)  # the real commands may report further errors
    assert bool(errors) == bool(real_errors)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
