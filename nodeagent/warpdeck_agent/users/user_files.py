"""Reads files that users named, through a child process (readfile) that runs as the user.

The child can be abandoned if a file server hangs (`probes` explains why this is not a thread). A file
is not read again while a child for it has not answered.
"""

from __future__ import annotations

import asyncio
import os
from typing import ClassVar, Dict, Optional, Set, Tuple

from warpdeck_agent.linux.file_reading import ANSWER, ASK, NO_FILE, REFUSED, FilePiece, LogError
from warpdeck_agent.linux.own_program import OWN, own_command
from warpdeck_agent.linux.probes import ANSWER_S

MOST_OF_USER = 64
"""The most files of one user that are read at once, including hanging ones; each costs a process."""


class UserFileReader:
    """A file of a user. `read_at` raises LogError if there is no answer in time."""

    _unanswered: ClassVar[Dict[Tuple[int, str], asyncio.subprocess.Process]] = {}
    """Children that have not answered in time, by user and file."""
    _reading: ClassVar[Dict[int, Set[asyncio.subprocess.Process]]] = {}
    """Children that have not ended, by user."""

    def __init__(self, path: str, uid: int, *, answer_s: float = ANSWER_S) -> None:
        self._path = path
        self._uid = uid
        self._key = (uid, path)
        self._answer_s = answer_s
        self._child: Optional[asyncio.subprocess.Process] = None

    @classmethod
    def readers(cls) -> Set[int]:
        """Return the pids of all children that have not ended."""
        return {each.pid for of_user in list(cls._reading.values()) for each in list(of_user)}

    async def read_at(self, at: Optional[int]) -> Optional[FilePiece]:
        """Like `OwnFile.read_at`."""
        if os.geteuid() == 0 and self._uid < 0:
            raise LogError(f"the owner of {self._path} was not given")
        if "\0" in self._path:
            raise LogError("the path of the output contains a zero byte")
        unanswered = self._unanswered.get(self._key)
        if unanswered is not None and unanswered.returncode is None:
            raise self._hangs()
        self._unanswered.pop(self._key, None)
        if self._child is None:
            others = self._reading.setdefault(self._uid, set())
            others -= {each for each in others if each.returncode is not None}
            if len(others) >= MOST_OF_USER:
                raise LogError(
                    f"{MOST_OF_USER} output files of this user are being read on this node, the limit; close some first"
                )
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
            others.add(self._child)
        try:
            return await asyncio.wait_for(self._ask(self._child, at), self._answer_s)
        except asyncio.TimeoutError:
            self._unanswered[self._key] = self._child
            raise self._hangs() from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise LogError(f"cannot read {self._path}: the process that reads it was killed") from error

    async def _ask(self, child: asyncio.subprocess.Process, at: Optional[int]) -> Optional[FilePiece]:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(ASK.pack(-1 if at is None else at))
        size, length = ANSWER.unpack(await child.stdout.readexactly(ANSWER.size))
        data = await child.stdout.readexactly(length)
        if size == REFUSED:
            raise LogError(data.decode(errors="replace"))
        return None if size == NO_FILE else FilePiece(size, data)

    def _hangs(self) -> LogError:
        return LogError(
            f"cannot read {self._path} on this node: its file server does not answer; try again later"
        )

    @property
    def is_over(self) -> bool:
        """Whether it has no running child."""
        return self._child is None or self._child.returncode is not None

    def close(self) -> None:
        """Close the child's input. The child exits as soon as it no longer hangs."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
