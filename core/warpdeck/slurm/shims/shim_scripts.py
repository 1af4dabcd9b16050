"""Installs a script for each Slurm command, in a directory of the user's own or in one with other programs.

sbatch is a shell script, because shells call it in loops. Each script contains the warpdeck home for which it
was written. So it finds its controller in a cleaned environment, too (sudo, cron, systemd).
"""

from __future__ import annotations

import os
import shlex
import sys

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import folder_of, pattern_of
from warpdeck.slurm.command_table import APP, COMMANDS, FRONTED

from . import sbatch_script

SHIM = """#!{interpreter}
{head}
import sys
sys.path[:] = {folders!r}
from warpdeck.slurm.runtime.entry import main
sys.exit(main({name!r}, sys.argv[1:], home={home!r}))
"""
SBATCH = "sbatch"
NAMES = sorted({*COMMANDS, *FRONTED, APP})
LONGEST_INTERPRETER = 120
"""Longest interpreter line. Kernels cut the first line of a script at 127 bytes."""
MAX_HEAD_BYTES = 16 * 1024
_MARK = "# One of Slurm's commands, written by `warpdeck shims` for "
"""Beginning of the second line of each script."""
_PROBE = "squeue"
"""A folder with our script of this name contains all scripts."""


def install(paths: Paths) -> str:
    """Write one script per command into the user's program directory and return the directory.

    Raises OSError.

    Scripts that are already up to date are not written.
    """
    folder = paths.programs
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name, text in _texts(paths, folder=shlex.quote(folder_of(paths))).items():
        _write(os.path.join(folder, name), text, mode=0o700)
    return folder


def install_beside_others(paths: Paths, folder: str) -> None:
    """Install the scripts in a directory with other programs. Raises OSError.

    Raises UserError if a file that was not written for this home already has one of the names. Nothing has
    been written then.
    """
    taken = [name for name in NAMES if os.path.lexists(os.path.join(folder, name))]
    foreign = [name for name in taken if not is_own(os.path.join(folder, name), paths)]
    if foreign:
        theirs = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise UserError(
            f"{folder} has {theirs} already, which warpdeck did not write for {paths.home}: nothing was written",
            'move what is there, or leave it and use `eval "$(warpdeck shims)"`',
        )
    os.makedirs(folder, exist_ok=True)
    for name, text in _texts(paths, folder=pattern_of(paths)).items():
        _write(os.path.join(folder, name), text, mode=0o755)


def remove_from(paths: Paths, folder: str) -> int:
    """Remove the scripts of this home from the directory and return their number. Raises OSError."""
    own = [path for name in NAMES if is_own(path := os.path.join(folder, name), paths)]
    for path in own:
        os.unlink(path)
    return len(own)


def is_own(path: str, paths: Paths) -> bool:
    """Check if the file is a script that was written for this home. A symbolic link is not."""
    return _second_line(path, follow=False) == os.fsencode(_head(paths))


def path_without_shims(path: str) -> str:
    """Return $PATH without the folders that contain our scripts, so that it leads to the commands of a real Slurm."""
    mark = os.fsencode(_MARK)
    return os.pathsep.join(
        folder
        for folder in path.split(os.pathsep)
        if not _second_line(os.path.join(folder, _PROBE), follow=True).startswith(mark)
    )


def _second_line(path: str, *, follow: bool) -> bytes:
    """Return the second line of the file, or b"" if there is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        with open(os.open(path, flags), "rb") as file:
            lines = file.read(MAX_HEAD_BYTES).split(b"\n", 2)
    except OSError:
        return b""
    return lines[1] if len(lines) > 1 else b""


def _head(paths: Paths) -> str:
    return f"{_MARK}{paths.home!r}"


def _texts(paths: Paths, *, folder: str) -> dict[str, str]:
    """Return the text of each command's script.

    `folder` is a shell pattern for the directory of the submitter.
    """
    interpreter = f"{sys.executable} -IS"
    if len(interpreter) > LONGEST_INTERPRETER or " " in sys.executable:
        interpreter = "/usr/bin/env python3"
    head, home, folders = _head(paths), paths.home, [path for path in sys.path if path]
    texts = {
        name: SHIM.format(interpreter=interpreter, head=head, folders=folders, name=name, home=home)
        for name in NAMES
    }
    texts[SBATCH] = sbatch_script.script(
        head=head, home=home, folder=folder, interpreter=sys.executable, folders=folders
    )
    return texts


def _write(path: str, text: str, *, mode: int) -> None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.chmod(path + ".new", mode)
    os.replace(path + ".new", path)
