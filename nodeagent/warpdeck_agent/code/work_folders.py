"""Whether a job's working folder is there, and the one that it was submitted from.

A child that is the job's user asks: nobody learns what they may not see themselves, and a server that hangs holds up neither the agent
nor other launches. Each user can leave a few such questions without an answer.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from typing import Dict, Tuple

from warpdeck_agent.linux.own_program import OWN
from warpdeck_agent.linux.probes import ANSWER_S, Probes
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.users.accounts import rights_of

KNOWN_S = 1.0
"""An array's tasks share a folder: one that was seen is there for so long."""
MAX_KNOWN = 256
MOST_WAITING = 16
"""Questions of one user that have no answer: each keeps a process and a thread. More wait for one of these to come back."""
_IS_FOLDER, _IS_ENTRY = '[ -d "$0" ]', '[ -e "$0" ] || [ -L "$0" ]'
Question = Tuple[int, str, str]
"""(uid, test, path)"""


class Folders:
    """Remembers what it has just seen."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._probes = Probes(_holds, answer_s=answer_s)
        self._seen: Dict[Tuple[int, str], float] = {}

    async def is_there(self, path: str, *, uid: int) -> bool:
        """Raises LaunchError where its server does not answer."""
        if time.monotonic() - self._seen.get((uid, path), -KNOWN_S) < KNOWN_S:
            return True
        found = await self._ask((uid, _IS_FOLDER, path), path)
        if found:
            if len(self._seen) >= MAX_KNOWN:
                self._seen.clear()
            self._seen[uid, path] = time.monotonic()
        return found

    async def holds(self, path: str, name: str, *, uid: int) -> bool:
        """Whether the folder has an entry of that name. Raises LaunchError where its server does not answer."""
        # First the folder: names are new each time, so that each would be a question of its own to a server that hangs.
        return await self.is_there(path, uid=uid) and await self._ask(
            (uid, _IS_ENTRY, os.path.join(path, name)), path
        )

    async def _ask(self, asked: Question, path: str) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._answer_s
        while len(others := self._probes.waiting(lambda each: bool(each[0] == asked[0]))) >= MOST_WAITING:
            if loop.time() >= until:
                raise _hanging(path)
            await asyncio.wait(others, timeout=until - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        said = (await self._probes.ask([asked]))[asked]
        if said is None:
            raise _hanging(path)
        return said is True


def _hanging(path: str) -> LaunchError:
    """The node's fault, which would take the job again and again while nothing keeps it from that."""
    return LaunchError(f"the folder {path} does not answer on this node", again=True, check="mount")


def _holds(asked: Question) -> bool:
    uid, test, path = asked
    null = subprocess.DEVNULL
    words = ["/bin/sh", "-c", test, path]
    done = subprocess.run(
        words, stdin=null, stdout=null, stderr=null, env={OWN: "1"}, cwd="/", check=False, **rights_of(uid)
    )
    return done.returncode == 0
