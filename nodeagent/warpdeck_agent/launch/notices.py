"""A line for the people who look at a job, where they look: its standard error, or the terminal that it has.

What ends a job is said in its standard error (lastwords) while it is signalled, and its end is told when the line is there.

The line is written by a process of the job's user, so that a root agent opens nothing that its user could not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from concurrent.futures import Executor
from typing import Counter as CounterOf
from typing import Set

from warpdeck_agent.client.visible import visible_word
from warpdeck_agent.linux.own_program import OWN, SYSTEM_PATH
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.users.accounts import as_user, group_of
from warpdeck_agent.users.user_children import ChildFailed, UserChild, UserChildren

from .launch import Job
from .termination_message import last_words

WRITE_S = 10.0
"""A disk that takes longer does not get the line."""
MAX_CHARS = 1000
LAST_WORDS_S = 0.5
"""How long an end that is to be told waits for its line: a disk that hangs keeps no job's place."""
MAX_WAITING = 256
"""Lines of one user that wait; others, of an array that is cancelled whole, are left out: a line costs a process."""
MAX_BYTES = 4096
"""What the process that writes a line may print. It prints nothing."""
WRITE = '[ -e "$2" ] || set -- "$1" "$3"; printf "%s\\n" "$1" >>"$2"'
"""Into the file of standard error; where that is joined to the output and kept only here, into the output's."""
WRITE_TERMINAL = 'printf "\\r\\n%s\\r\\n" "$1" >"$2"'


class Notices:
    """Writes lines. A user whose file takes none (a pipe that nobody reads, a disk that hangs) holds up nobody else's."""

    def __init__(self, children: UserChildren, pool: Executor) -> None:
        self._children = children
        self._pool = pool
        self._waiting: CounterOf[int] = Counter()
        """Lines that are not written yet, by user."""
        self._tasks: Set[asyncio.Task[None]] = set()

    def say_why_it_ends(self, job: Job, *, cause: str = "") -> None:
        """Adds slurmstepd's line to the standard error of a script, once, for that cause or the one that the job has."""
        if not job.meta.script or job.meta.pty or job.last_words is not None or self._has_many(job):
            return
        line = last_words(job.meta.job_id, job.meta.node, cause=cause or job.cause, at_unix=time.time())
        job.last_words = self._begin(job, line)

    async def said_why(self, job: Job) -> None:
        """Returns when the line is there, or its disk has had its time."""
        if job.last_words is not None:
            await asyncio.wait([job.last_words], timeout=LAST_WORDS_S)

    def write(self, job: Job, words: str) -> None:
        """Adds the line if the job runs. One that cannot be written is lost: the job's history has it too."""
        if job.phase == "running" and job.meta.role != "hold" and not self._has_many(job):
            self._begin(job, f"warpdeck: {visible_word(words[:MAX_CHARS])}")

    def _has_many(self, job: Job) -> bool:
        return self._waiting[job.meta.uid] >= MAX_WAITING

    def _begin(self, job: Job, line: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._write(job, line))
        self._waiting[job.meta.uid] += 1
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._written(job.meta.uid, task))
        return task

    def _written(self, uid: int, task: asyncio.Task[None]) -> None:
        self._waiting[uid] -= 1
        self._tasks.discard(task)

    async def _write(self, job: Job, line: str) -> None:
        meta = job.meta
        script, paths = WRITE, [job.output("err"), job.output("out")]
        if meta.pty:
            terminal = await asyncio.get_running_loop().run_in_executor(self._pool, _terminal, job)
            script, paths = WRITE_TERMINAL, [terminal]
        if not paths[0]:
            return
        with contextlib.suppress(ChildFailed, LaunchError):
            child = UserChild(
                argv=["/bin/sh", "-c", script, "sh", line, *paths],
                env={"PATH": SYSTEM_PATH, OWN: "1"},
                limit_s=WRITE_S,
                most_bytes=MAX_BYTES,
                drop=as_user(meta.user, uid=meta.uid, gid=group_of(meta)),
            )
            await self._children.run(child, uid=meta.uid)


def _terminal(job: Job) -> str:
    """The terminal on which its shell runs, "" if that is gone. Blocks."""
    shell = job.batch_shell(job.members())
    try:
        path = os.readlink(f"/proc/{shell}/fd/0") if shell else ""
    except OSError:
        return ""
    return path if path.startswith("/dev/pts/") else ""
