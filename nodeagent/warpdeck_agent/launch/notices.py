"""Writes lines for the users of a job to its standard error, or to its terminal if it has one.

The reason for a job's end is written to its standard error (see `termination_message`) while the job is
signaled, and the end is reported after the line was written. A process of the job's user writes the line, so
that a root agent opens no file that the user could not open.
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

from .launch import LocalLaunch
from .termination_message import termination_message

WRITE_S = 10.0
"""How long writing a line may take, in seconds. On a slower disk, the line is lost."""
MAX_CHARS = 1000
MESSAGE_S = 0.5
"""How long the report of an end waits for the line about it, in seconds. A hanging disk must not hold a job's
resources.
"""
MAX_WAITING = 256
"""The most waiting lines of one user. Others are omitted, for example when a whole array is canceled, because
each line needs a process.
"""
MAX_BYTES = 4096
"""The most bytes that the process that writes a line may print. It should print nothing."""
WRITE = '[ -e "$2" ] || set -- "$1" "$3"; printf "%s\\n" "$1" >>"$2"'
"""Shell script that appends a line to the file of standard error. If that is joined to the output and kept
only on the node, it appends to the output's file.
"""
WRITE_TERMINAL = 'printf "\\r\\n%s\\r\\n" "$1" >"$2"'


class Notices:
    """Writes lines for users. Each line is written by a process of its user.

    A user's file that blocks (a pipe without a reader, a hanging disk) delays only that user's lines.
    """

    def __init__(self, children: UserChildren, pool: Executor) -> None:
        self._children = children
        self._pool = pool
        self._waiting: CounterOf[int] = Counter()
        """Number of unwritten lines by user."""
        self._tasks: Set[asyncio.Task[None]] = set()

    def write_termination_message(self, launch: LocalLaunch, *, cause: str = "") -> None:
        """Write slurmstepd's line to the standard error of a batch script, once per job.

        It names `cause`, or else the job's cause.
        """
        if (
            not launch.meta.script
            or launch.meta.pty
            or launch.end.termination_message is not None
            or self._has_too_many(launch)
        ):
            return
        line = termination_message(
            launch.meta.job_id, launch.meta.node, cause=cause or launch.end.cause, at_unix=time.time()
        )
        launch.end.termination_message = self._begin(launch, line)

    async def wait_for_termination_message(self, launch: LocalLaunch) -> None:
        """Wait until the line about the job's end is written, for at most MESSAGE_S."""
        if launch.end.termination_message is not None:
            await asyncio.wait([launch.end.termination_message], timeout=MESSAGE_S)

    def write(self, launch: LocalLaunch, text: str) -> None:
        """Write a line if the job runs.

        If it cannot be written, it is lost here but stays in the job's history.
        """
        if launch.phase == "running" and launch.meta.role != "hold" and not self._has_too_many(launch):
            self._begin(launch, f"warpdeck: {visible_word(text[:MAX_CHARS])}")

    def _has_too_many(self, launch: LocalLaunch) -> bool:
        return self._waiting[launch.meta.uid] >= MAX_WAITING

    def _begin(self, launch: LocalLaunch, line: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._write(launch, line))
        self._waiting[launch.meta.uid] += 1
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._written(launch.meta.uid, task))
        return task

    def _written(self, uid: int, task: asyncio.Task[None]) -> None:
        self._waiting[uid] -= 1
        self._tasks.discard(task)

    async def _write(self, launch: LocalLaunch, line: str) -> None:
        meta = launch.meta
        script, paths = WRITE, [launch.output("err"), launch.output("out")]
        if meta.pty:
            terminal = await asyncio.get_running_loop().run_in_executor(self._pool, _terminal, launch)
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


def _terminal(launch: LocalLaunch) -> str:
    """Return the terminal of the job's shell, "" if the shell is gone. Blocks."""
    shell = launch.processes.batch_shell(launch.processes.pids())
    try:
        path = os.readlink(f"/proc/{shell}/fd/0") if shell else ""
    except OSError:
        return ""
    return path if path.startswith("/dev/pts/") else ""
