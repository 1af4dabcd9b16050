"""The folders for temporary files of launches (TMPDIR).

They are private to the job's user, and removed with everything in them.

  <parent>/warpdeck-<agent>-<id>.<restarts>-<random>/
                        in/     in the folder for a private path of the job (see `private_folders`)

The name is short, because programs create sockets in the folder. The path of a socket may have 107 bytes, and
Ray's own part takes 68 of them. `<agent>` is the beginning of the agent's identity. All parent folders that
were ever used are stored in the agent's folder, so that a restarted agent finds the folders that a killed one
has left.
"""

from __future__ import annotations

import os
import secrets
from typing import Container, List, Sequence, Tuple

from warpdeck_agent.isolation.private_folders import PrivateDirs
from warpdeck_agent.linux.folder_removal import remove_empty, remove_tree
from warpdeck_agent.linux.safe_paths import make_folder
from warpdeck_agent.wire.paths import folder_containing

from .spool import Spool
from .tmpdir_pool import MODE, TmpdirPool

DEFAULT_PARENT = "/tmp"
AGENT_CHARS = 6
"""Number of characters of the agent's identity, enough to distinguish the few agents that ever run on one
machine.
"""
RANDOM_BYTES = 3
"""Enough randomness that nobody can create all folders with possible names in advance."""
INNER, LIKE_TMP = "in", 0o1777
"""The folder that a job sees as a private path. The folder around it belongs to root."""
PARENTS_FILE = "tmp"
"""The file with the parent folders that were used, one per line."""
MAX_PARENTS = 64
"""The most parent folders that are remembered. A site changes its setting for temporary files rarely."""


class TempDirs:
    """Creates and removes TMPDIRs.

    All methods block as long as the disk does; `give_back` and `empty_tmpdir_pool` may run in any thread.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._prefix = prefix_of(spool.identity)
        self._pool = TmpdirPool(self._prefix)
        self._parents: List[str] = spool.read(PARENTS_FILE).splitlines()

    def make(self, name: str, *, below: str, uid: int, gid: int) -> str:
        """Create an empty folder that belongs to the user, and return its path. Raises OSError."""
        parent = below or DEFAULT_PARENT
        self._remember(parent)
        path = f"{parent}/{self._prefix}{name}-{secrets.token_hex(RANDOM_BYTES)}"
        owner = (parent, uid, gid)
        if not self._pool.take(path, owner):
            make_folder(path, MODE, uid=uid, gid=gid)
        self._pool.register(path, owner)
        return path

    def give_back(self, path: str, *, no_process_left: bool) -> bool:
        """Remove the folder of an ended launch, or keep it for a later launch, if it is empty.

        Returns whether the folder is gone. `no_process_left` means that no process of the launch runs any more.
        """
        return (no_process_left and self._pool.keep(path)) or remove_empty(path)

    def empty_tmpdir_pool(self) -> None:
        """Remove the folders that were kept for later launches."""
        for path in self._pool.drop():
            remove_tree(path)

    def cover(self, name: str, *, covered: Sequence[str], shared: Sequence[str], tmp_dir: str) -> PrivateDirs:
        """Create private folders that a launch sees in place of the folders `covered`.

        Folders that do not exist on the node are omitted. Raises OSError, and leaves nothing then.
        """
        found = list(dict.fromkeys(os.path.realpath(parent) for parent in covered if os.path.isdir(parent)))
        covers: List[Tuple[str, str]] = []
        try:
            for parent in found:
                covers.append((parent, f"{self.make(name, below=parent, uid=0, gid=0)}/{INNER}"))
                os.mkdir(covers[-1][1])
                os.chmod(covers[-1][1], LIKE_TMP)
            there = [path for path in shared if os.path.lexists(path) and not os.path.islink(path)]
            shows = tuple(path for path in there if folder_containing(path, found))
            for path in shows:
                _make_mount_point(path, at=PrivateDirs(tuple(covers)).outside(path))
        except OSError:
            for _, folder in covers:
                remove_tree(os.path.dirname(folder))
            raise
        return PrivateDirs(tuple(covers), shows, folder_containing(tmp_dir or DEFAULT_PARENT, found) or "")

    def clear(self, keep: Container[str]) -> None:
        """Remove the folders of launches that no longer exist; `keep` are paths to keep."""
        for parent in self._parents:
            for path in self._in(parent):
                if path not in keep:
                    remove_tree(path)

    def _in(self, parent: str) -> List[str]:
        try:
            names = os.listdir(parent)
        except OSError:
            return []
        return [os.path.join(parent, name) for name in names if name.startswith(self._prefix)]

    def _remember(self, parent: str) -> None:
        if parent not in self._parents:
            self._parents = [*self._parents, parent][-MAX_PARENTS:]
            self._spool.write(PARENTS_FILE, "\n".join(self._parents))


def prefix_of(identity: str) -> str:
    """Return the name prefix of an agent's folders."""
    return f"warpdeck-{identity[:AGENT_CHARS]}-"


def _make_mount_point(path: str, *, at: str) -> None:
    is_folder = os.path.isdir(path)
    os.makedirs(at if is_folder else os.path.dirname(at), mode=0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(at, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
