"""The surroundings of a typed command: the variables of a login shell, and a project folder with its git repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

VARIABLES = 80
"""Number of variables of an ordinary login on a cluster with environment modules and conda."""
MODULES = ("gcc/12.2.0", "cuda/12.4", "openmpi/4.1.6", "nccl/2.21", "python/3.11.7")
FILES = 200
"""Number of files of the project that git tracks."""


def login_environment() -> dict[str, str]:
    """Return the variables that are added to those of this process, so that there are VARIABLES."""
    added = {"LOADEDMODULES": ":".join(MODULES), "MODULEPATH": "/opt/modulefiles/core:/opt/modulefiles/apps"}
    for module in MODULES:
        name, root = module.partition("/")[0].upper(), f"/opt/software/{module}"
        added |= {
            f"{name}_HOME": root,
            f"{name}_LIBRARY": f"{root}/lib:{root}/lib64",
            f"{name}_INCLUDE": f"{root}/include",
        }
    missing = VARIABLES - len(os.environ) - len(added)
    return added | {f"SITE_SETTING_{number}": f"/opt/site/settings/{number}" for number in range(missing)}


def make_project(folder: Path) -> None:
    """Write a small project with one commit. Its folder for output is ignored by git."""
    for number in range(FILES):
        path = folder / f"src/package{number % 10}/module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {number}\n" * 50)
    (folder / ".gitignore").write_text("*.out\nlogs/\n")
    (folder / "logs").mkdir()
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Add the project"]):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
