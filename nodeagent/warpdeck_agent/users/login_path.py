"""Keeps srun on the PATH of login shells in jobs (`#!/bin/bash -l`).

On some systems, /etc/profile resets PATH. A root agent writes a file to /etc/profile.d, which does nothing
outside of jobs. A user's own agent may not write there. So its jobs have the variable BASH_ENV,
which names a file that bash reads after the profile, unless the user has set a BASH_ENV of their own.
"""

from __future__ import annotations

import os
import sys
from typing import Dict

from .job_programs import PROGRAMS, write

PROFILE = "etc/profile.d/zz-warpdeck.sh"
"""The name sorts last, because the last file decides the first entry of PATH."""
OWN = "bashenv.sh"
TEXT = f"""# Written by warpdeck's agent. Adds srun and the other commands to PATH in login shells of jobs, and does nothing elsewhere.
if [ -n "${{WARPDECK_ACCESS-}}" ]; then
    case ":$PATH:" in
        *":${{WARPDECK_ACCESS%/*}}/{PROGRAMS}:"*) ;;
        *) PATH=${{WARPDECK_ACCESS%/*}}/{PROGRAMS}:$PATH ;;
    esac
fi
"""


def install(folder: str, *, uid: int, root: str = "/") -> None:
    """Write the file that shells of jobs read.

    An agent of root writes it for all shells of the node, a user's agent below its own folder.
    """
    path = os.path.join(root, PROFILE) if uid == 0 else os.path.join(folder, OWN)
    if uid == 0 and not os.path.isdir(os.path.dirname(path)):
        return  # /etc/profile of this system does not read the folder
    try:
        write(path, TEXT.encode(), mode=0o644)
    except OSError as error:
        print(
            f"login shells of jobs may not find srun, because their start file cannot be written: {error}",
            file=sys.stderr,
        )


def variables(env: Dict[str, str], folder: str, *, uid: int) -> Dict[str, str]:
    """Return the variables that a job's environment needs, so that its shells read the file of `install`."""
    return {} if uid == 0 or "BASH_ENV" in env else {"BASH_ENV": os.path.join(folder, OWN)}
