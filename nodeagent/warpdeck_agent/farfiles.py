"""Reading files of network mounts, whose server may hang: a child asks, which can be left behind (see probes for why no thread).
A file whose child (see readfile) has not come back is not asked for again.
"""

from __future__ import annotations

import asyncio
import os
from typing import ClassVar, Dict, Optional

from .disks import NETWORK, NETWORK_FUSE
from .mounts import mounted
from .probes import ANSWER_S
from .program import OWN, own_command
from .readfile import ANSWER, ASK, NO_FILE, REFUSED, LogError, Look

_AUTOFS = "autofs"
"""What a look there would mount."""
MAX_LINKS = 40
"""As in the kernel; more lead nowhere."""


class FarFile:
    """A file behind a mount that may hang. `look` raises LogError where nobody answers in time."""

    _left: ClassVar[Dict[str, asyncio.subprocess.Process]] = {}
    """Children that have not come back, by their file."""

    def __init__(self, path: str, uid: int, *, answer_s: float = ANSWER_S) -> None:
        self._path = path
        self._uid = uid
        self._answer_s = answer_s
        self._child: Optional[asyncio.subprocess.Process] = None

    async def look(self, at: Optional[int]) -> Optional[Look]:
        """As OwnFile's."""
        left = self._left.get(self._path)
        if left is not None and left.returncode is None:
            raise self._hangs()
        self._left.pop(self._path, None)
        if self._child is None:
            self._child = await asyncio.create_subprocess_exec(
                *own_command(),
                "readfile",
                self._path,
                str(self._uid),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={OWN: "1"},
                cwd="/",
            )
        try:
            return await asyncio.wait_for(self._ask(self._child, at), self._answer_s)
        except asyncio.TimeoutError:
            self._left[self._path] = self._child
            raise self._hangs() from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise LogError(f"cannot read {self._path}: who reads it was killed") from error

    async def _ask(self, child: asyncio.subprocess.Process, at: Optional[int]) -> Optional[Look]:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(ASK.pack(-1 if at is None else at))
        size, length = ANSWER.unpack(await child.stdout.readexactly(ANSWER.size))
        data = await child.stdout.readexactly(length)
        if size == REFUSED:
            raise LogError(data.decode(errors="replace"))
        return None if size == NO_FILE else Look(size, data)

    def _hangs(self) -> LogError:
        return LogError(
            f"{self._path} does not answer on this node: its file server hangs; read it once that is back"
        )

    @property
    def is_over(self) -> bool:
        """Whether no child of it is left."""
        return self._child is None or self._child.returncode is not None

    def close(self) -> None:
        """The child ends with its input, once it comes back."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()


def leads_far(path: str) -> bool:
    """Whether to open it would ask a network mount; found link by link, without a question to any."""
    kinds = {each.path: each.kind for each in mounted()}
    left, at, links = list(reversed(path.split("/"))), "", 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at).rstrip("/")
            continue
        at += "/" + part
        if _is_far(kinds.get(at, "")):
            return True
        try:
            target = os.readlink(at)
        except OSError:
            continue
        links += 1
        if links > MAX_LINKS:
            return False
        at = "" if target.startswith("/") else os.path.dirname(at).rstrip("/")
        left += reversed(target.split("/"))
    return False


def _is_far(kind: str) -> bool:
    return kind in NETWORK or kind == _AUTOFS or kind.startswith(NETWORK_FUSE)
