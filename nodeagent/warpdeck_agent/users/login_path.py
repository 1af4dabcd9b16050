"""Login shells of jobs: for `#!/bin/bash -l`, /etc/profile of some systems sets PATH anew, and srun must be on it all the same.

A root agent leaves a file in /etc/profile.d, which does nothing outside of jobs. A user's own agent may write none: bash reads
what its jobs' BASH_ENV names, after the profile, where the user has none of their own.
"""

from __future__ import annotations

import os
import sys
from typing import Dict

from .job_programs import PROGRAMS, write

PROFILE = "etc/profile.d/zz-warpdeck.sh"
"""Behind what else is there: the last one decides what comes first on the PATH."""
OWN = "bashenv.sh"
TEXT = f"""# Written by warpdeck's agent. A login shell of a job finds srun and the others; any other shell changes nothing here.
if [ -n "${{WARPDECK_ACCESS-}}" ]; then
    case ":$PATH:" in
        *":${{WARPDECK_ACCESS%/*}}/{PROGRAMS}:"*) ;;
        *) PATH=${{WARPDECK_ACCESS%/*}}/{PROGRAMS}:$PATH ;;
    esac
fi
"""


def install(folder: str, *, uid: int, root: str = "/") -> None:
    """Writes the file where shells of jobs will read it: root's for all shells of the node, a user's below the agent's folder."""
    path = os.path.join(root, PROFILE) if uid == 0 else os.path.join(folder, OWN)
    if uid == 0 and not os.path.isdir(os.path.dirname(path)):
        return  # this system's profile reads no such folder
    try:
        write(path, TEXT.encode(), mode=0o644)
    except OSError as error:
        print(f"login shells of jobs may not find srun: {error}", file=sys.stderr)


def variables(env: Dict[str, str], folder: str, *, uid: int) -> Dict[str, str]:
    """What a job's environment gets for it."""
    return {} if uid == 0 or "BASH_ENV" in env else {"BASH_ENV": os.path.join(folder, OWN)}
