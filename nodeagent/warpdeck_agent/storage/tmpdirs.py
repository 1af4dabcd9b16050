"""A folder for temporary files of each launch: its TMPDIR. Private to the job's user, and removed with everything in it.

    <tmp>/warpdeck-<agent>-<id>.<restarts>-<random>/
                                                in/     of a place that the job has for itself (privatedirs)

The name is short, because programs make sockets below it, whose paths may have 107 bytes: Ray's own part takes 68 of them.
`<agent>` is how the agent's identity begins. The places that were ever used are noted in the agent's folder, so that an agent
that starts finds what one that was killed has left.
"""

from __future__ import annotations

import os
import secrets
from typing import Container, List, Sequence, Tuple

from warpdeck_agent.isolation.private_folders import PrivateDirs
from warpdeck_agent.linux.folder_removal import remove_empty, remove_tree
from warpdeck_agent.linux.safe_paths import make_folder
from warpdeck_agent.wire.places import place_of

from .spool import Spool
from .tmpdir_pool import MODE, SpareDirs

DEFAULT_PLACE = "/tmp"
AGENT_CHARS = 6
"""Of the agent's identity: of the few agents that ever work on one machine no two begin alike."""
RANDOM_BYTES = 3
"""So many that nobody can make all folders of such names before."""
INNER, LIKE_TMP = "in", 0o1777
"""What a job sees as a place that it has for itself. The folder around it is root's alone."""
NOTE = "tmp"
"""The file with the places that were used, a line each."""
MAX_PLACES = 64
"""A site changes its setting for temporary files a few times in its life."""


class TempDirs:
    """Makes and removes them. All methods block as long as the disk does; `leave` and `drop_spares` may run in any thread."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._prefix = prefix_of(spool.identity)
        self._spares = SpareDirs(self._prefix)
        self._places: List[str] = spool.read(NOTE).splitlines()

    def make(self, name: str, *, below: str, uid: int, gid: int) -> str:
        """An empty folder that is the user's. Raises OSError."""
        place = below or DEFAULT_PLACE
        self._note(place)
        path = f"{place}/{self._prefix}{name}-{secrets.token_hex(RANDOM_BYTES)}"
        owner = (place, uid, gid)
        if not self._spares.take(path, owner):
            make_folder(path, MODE, uid=uid, gid=gid)
        self._spares.made(path, owner)
        return path

    def leave(self, path: str, *, nobody_left: bool) -> bool:
        """Whether it is gone, because it held nothing. `nobody_left`: no process of its launch may still write into it."""
        return (nobody_left and self._spares.keep(path)) or remove_empty(path)

    def drop_spares(self) -> None:
        """Removes those that were kept for the next launch."""
        for path in self._spares.drop():
            remove_tree(path)

    def cover(self, name: str, *, places: Sequence[str], shared: Sequence[str], tmp_dir: str) -> PrivateDirs:
        """What a launch sees in the place of these. Those that the node lacks are left out. Raises OSError, and leaves nothing."""
        found = list(dict.fromkeys(os.path.realpath(place) for place in places if os.path.isdir(place)))
        covers: List[Tuple[str, str]] = []
        try:
            for place in found:
                covers.append((place, f"{self.make(name, below=place, uid=0, gid=0)}/{INNER}"))
                os.mkdir(covers[-1][1])
                os.chmod(covers[-1][1], LIKE_TMP)
            there = [path for path in shared if os.path.lexists(path) and not os.path.islink(path)]
            shows = tuple(path for path in there if place_of(path, found))
            for path in shows:
                _make_mount_point(path, at=PrivateDirs(tuple(covers)).outside(path))
        except OSError:
            for _, folder in covers:
                remove_tree(os.path.dirname(folder))
            raise
        return PrivateDirs(tuple(covers), shows, place_of(tmp_dir or DEFAULT_PLACE, found) or "")

    def clear(self, keep: Container[str]) -> None:
        """Removes those of launches that are no more; `keep` are paths."""
        for place in self._places:
            for path in self._in(place):
                if path not in keep:
                    remove_tree(path)

    def _in(self, place: str) -> List[str]:
        try:
            names = os.listdir(place)
        except OSError:
            return []
        return [os.path.join(place, name) for name in names if name.startswith(self._prefix)]

    def _note(self, place: str) -> None:
        if place not in self._places:
            self._places = [*self._places, place][-MAX_PLACES:]
            self._spool.write(NOTE, "\n".join(self._places))


def prefix_of(identity: str) -> str:
    """What the names of an agent's folders begin with."""
    return f"warpdeck-{identity[:AGENT_CHARS]}-"


def _make_mount_point(path: str, *, at: str) -> None:
    is_folder = os.path.isdir(path)
    os.makedirs(at if is_folder else os.path.dirname(at), mode=0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(at, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
