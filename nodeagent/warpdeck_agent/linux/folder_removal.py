"""Removing a user's folder with everything in it, and nothing of what is mounted there.

The folder above it is opened, and all work starts from that descriptor: what users rename or link meanwhile leads nowhere else. As
root it happens in a mount namespace of a thread's own, in which nobody can mount anything after the mounts were let go of; where
their mount points are removed, the kernel detaches them from the node's as well. The rest is left to rm(1), which follows no links: a
job may have nested folders deeper than any recursion of ours should go.
"""

from __future__ import annotations

import os
import shutil
from typing import List

from .bounded_programs import run_for
from .mounts import apart, detach_below
from .own_program import SYSTEM_PATH
from .safe_paths import opened

REMOVE_S = 3600.0
"""How long a tree may take; rm(1) may hang with its disk, and is left behind then."""


def remove_empty(path: str) -> bool:
    """Whether it is gone: it held nothing, or was not there."""
    if not path:
        return True
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_tree(path: str) -> bool:
    """False if something stays. To run rm(1) costs as much as a short job, and many folders are empty. Blocks."""
    return remove_empty(path) or apart(lambda: _remove(path))


def _remove(path: str) -> bool:
    name = os.path.basename(path)
    try:
        with opened(os.path.dirname(path)) as parent:
            if not detach_below(parent, name):
                return False
            if not _in(parent, ["rm", "-rf", "--", f"./{name}"]) and os.geteuid() != 0:
                # A job may have taken the right to write from its own folders; root needs no right.
                _in(parent, ["chmod", "-R", "u+rwX", "--", f"./{name}"])
                _in(parent, ["rm", "-rf", "--", f"./{name}"])
            os.stat(name, dir_fd=parent, follow_symlinks=False)
            return False
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _in(folder: int, argv: List[str]) -> bool:
    """Whether the system's program succeeds, run in that folder."""
    program = shutil.which(argv[0], path=SYSTEM_PATH) or argv[0]
    return run_for(REMOVE_S, [program, *argv[1:]], cwd=f"/proc/self/fd/{folder}")
