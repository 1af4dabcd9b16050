"""The commands on the PATH of jobs run from copies of a few modules.

These modules import no other module of the project.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import warpdeck_agent
from warpdeck_agent.users.job_programs import MODULES

PACKAGE = Path(warpdeck_agent.__file__).parent


def imported(name: str) -> set[str]:
    """Return the project's modules that a module imports, named as in MODULES."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        folder = Path(name).parents[node.level - 1]
        base = folder / (node.module or "").replace(".", "/")
        for each in (base, *(base / alias.name for alias in node.names)):
            for path in (each.with_suffix(".py"), each / "__init__.py"):
                if (PACKAGE / path).is_file():
                    found.add(os.fspath(path))
    return found


def test_every_module_that_a_command_imports_is_copied() -> None:
    assert {each for name in MODULES for each in imported(name)} <= set(MODULES)
