"""Imports of Slurm's commands. Each start pays for them, and scripts start thousands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warpdeck.slurm.command_table import COMMANDS

EXPENSIVE_MODULES = ("asyncio", "msgspec", "textual", "asyncssh")
EXTRA = {"scontrol": ["scontrol.keywords"]}
"""Modules that a command loads when it has an argument to run."""


@pytest.mark.parametrize("command", ["sacct", "sacctmgr", "scontrol", "sstat"])
def test_a_command_imports_no_expensive_modules(command: str) -> None:
    modules = [f"warpdeck.slurm.{name}" for name in (COMMANDS[command], *EXTRA.get(command, []))]
    code = f"import sys, {', '.join(modules)}; print([name for name in {EXPENSIVE_MODULES} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "[]\n"
