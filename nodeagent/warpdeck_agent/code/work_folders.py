"""Checks whether a job's working folder exists on this node, and whether it is the submit folder.

A child process checks as the job's user. So a user learns nothing that they may not see, and a hanging file
server delays neither the agent nor other launches. The number of unanswered checks per user is limited.
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
"""How long a folder that was found is assumed to exist, in seconds. The tasks of an array share a folder."""
MAX_KNOWN = 256
MOST_WAITING = 16
"""The most unanswered checks of one user. Each keeps a process and a thread. Further checks wait for one of
them to end.
"""
_IS_FOLDER, _IS_ENTRY = '[ -d "$0" ] && [ -x "$0" ]', '[ -e "$0" ] || [ -L "$0" ]'
Question = Tuple[int, str, str]
"""(uid, test, path)"""


class FolderChecks:
    """Checks folders, and caches found ones for a moment."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._probes = Probes(_test, answer_s=answer_s)
        self._seen: Dict[Tuple[int, str], float] = {}

    async def is_there(self, path: str, *, uid: int) -> bool:
        """Return whether the folder exists and the user can enter it.

        Raises LaunchError if its file server does not answer.
        """
        if time.monotonic() - self._seen.get((uid, path), -KNOWN_S) < KNOWN_S:
            return True
        found = await self._ask((uid, _IS_FOLDER, path), path)
        if found:
            if len(self._seen) >= MAX_KNOWN:
                self._seen.clear()
            self._seen[uid, path] = time.monotonic()
        return found

    async def holds(self, path: str, name: str, *, uid: int) -> bool:
        """Return whether the folder has an entry of that name.

        Raises LaunchError if its file server does not answer.
        """
        # Check the folder first: names are new each time, so each would be another hanging check on a file
        # server that hangs.
        return await self.is_there(path, uid=uid) and await self._ask(
            (uid, _IS_ENTRY, os.path.join(path, name)), path
        )

    async def _ask(self, question: Question, path: str) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._answer_s
        while len(others := self._probes.waiting(lambda each: bool(each[0] == question[0]))) >= MOST_WAITING:
            if loop.time() >= until:
                raise _hanging(path)
            await asyncio.wait(others, timeout=until - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        answer = (await self._probes.ask([question]))[question]
        if answer is None:
            raise _hanging(path)
        return answer is True


def _hanging(path: str) -> LaunchError:
    """Return the error for a folder on a file server that does not answer.

    The error counts as a fault of the node, so that the job is not sent to the same node again and again.
    """
    return LaunchError(
        f"the file server of the folder {path} does not answer on this node", again=True, check="mount"
    )


def _test(question: Question) -> bool:
    uid, test, path = question
    null = subprocess.DEVNULL
    argv = ["/bin/sh", "-c", test, path]
    done = subprocess.run(
        argv, stdin=null, stdout=null, stderr=null, env={OWN: "1"}, cwd="/", check=False, **rights_of(uid)
    )
    return done.returncode == 0
