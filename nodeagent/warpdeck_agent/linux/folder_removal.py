"""Removes a user's folder with everything in it, but nothing of file systems that are mounted inside it.

The parent folder is opened, and all work starts from that descriptor, so users cannot redirect it by renaming
or linking meanwhile. As root, the work happens in a thread with its own mount namespace, in which nobody can
mount anything after the mounts were detached. When a mount point is removed there, the kernel also detaches
it in the node's namespace. Files are removed with rm(1), which follows no links: a job may have nested
folders too deep for a recursive function in Python.
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
"""How long the removal of a tree may take, in seconds. rm(1) may hang in its file system, and is then
abandoned.
"""


def remove_empty(path: str) -> bool:
    """Remove an empty folder. Returns whether it is gone; False if it is not empty."""
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
    """Remove a folder with everything in it.

    Returns False if something stays. Blocks. An empty folder is removed without rm(1), because many folders
    are empty and running rm(1) costs as much as a short job.
    """
    return remove_empty(path) or apart(lambda: _remove(path))


def _remove(path: str) -> bool:
    name = os.path.basename(path)
    try:
        with opened(os.path.dirname(path)) as parent:
            if not detach_below(parent, name):
                return False
            if not _in(parent, ["rm", "-rf", "--", f"./{name}"]) and os.geteuid() != 0:
                # A job may have removed write permission from its own folders. Root needs no permission.
                _in(parent, ["chmod", "-R", "u+rwX", "--", f"./{name}"])
                _in(parent, ["rm", "-rf", "--", f"./{name}"])
            os.stat(name, dir_fd=parent, follow_symlinks=False)
            return False
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _in(folder: int, argv: List[str]) -> bool:
    """Run a system program in that folder and return whether it succeeds."""
    program = shutil.which(argv[0], path=SYSTEM_PATH) or argv[0]
    return run_for(REMOVE_S, [program, *argv[1:]], cwd=f"/proc/self/fd/{folder}")
