"""The scripts that carry Slurm's command names: one each, in a folder of the user's own. sbatch, which shells call in loops, is a
script of the shell's."""

from __future__ import annotations

import os
import sys

from warpdeck.paths import Paths
from warpdeck.submitter import shell
from warpdeck.submitter.place import folder_of

from .main import APP, COMMANDS, FRONTED

SHIM = """#!{interpreter}
import sys
sys.path[:] = {folders!r}
from warpdeck.slurm.entry import main
sys.exit(main({name!r}, sys.argv[1:]))
"""
SBATCH = "sbatch"
LONGEST_INTERPRETER = 120
"""Of a first line; kernels cut it at 127 bytes."""


def install(paths: Paths) -> str:
    """Writes one script a command, unless it is there as it should be; the folder. Raises OSError."""
    folder = paths.programs
    os.makedirs(folder, mode=0o700, exist_ok=True)
    interpreter = f"{sys.executable} -IS"
    if len(interpreter) > LONGEST_INTERPRETER or " " in sys.executable:
        interpreter = "/usr/bin/env python3"
    folders = [path for path in sys.path if path]
    for name in sorted({*COMMANDS, *FRONTED, APP} - {SBATCH}):
        text = SHIM.format(interpreter=interpreter, folders=folders, name=name)
        _write(os.path.join(folder, name), text)
    own = shell.script(folder=folder_of(paths), interpreter=sys.executable, folders=folders)
    _write(os.path.join(folder, SBATCH), own)
    return folder


def _write(path: str, text: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".new", 0o700)
    os.replace(path + ".new", path)
