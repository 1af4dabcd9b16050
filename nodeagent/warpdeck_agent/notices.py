"""A line for the people who look at a job, where they look: its standard error, or the terminal that it has.

What ends a job is said in its standard error (lastwords) while it is signalled, and its end is told when the line is there.

The line is written by a process of the job's user, so that a root agent opens nothing that its user could not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import time
from concurrent.futures import ThreadPoolExecutor

from .accounts import as_user
from .job import Job
from .lastwords import last_words
from .leaving import run_for

WRITE_S = 10.0
"""A disk that takes longer does not get the line."""
MAX_CHARS = 1000
LAST_WORDS_S = 0.5
"""How long an end that is to be told waits for its line: a disk that hangs keeps no job's place."""
MAX_WAITING = 256
"""Jobs that wait for their lines; others, of an array that is cancelled whole, end without: a line costs a process."""
WRITE = 'line=$1; [ -e "$2" ] || shift; printf "%s\\n" "$line" >>"$2"'
"""Into the file that gets its standard error: where that is joined and only kept here, the other one."""
WRITE_TERMINAL = 'printf "\\r\\n%s\\r\\n" "$1" >"$2"'


class Notices:
    """Writes lines, in a thread."""

    def __init__(self) -> None:
        self._enders = ThreadPoolExecutor(2, thread_name_prefix="last-words")
        """Of their own: what writes to a disk that hangs must not stand before the signals that end jobs."""
        self._waiting = 0

    def say_why_it_ends(self, job: Job, *, cause: str = "") -> None:
        """Adds slurmstepd's line to the standard error of a script, once, for that cause or the one that the job has."""
        if not job.meta.script or job.meta.pty or job.last_words is not None or self._waiting >= MAX_WAITING:
            return
        line = last_words(job.meta.job_id, job.meta.node, cause=cause or job.cause, at_unix=time.time())
        self._waiting += 1
        job.last_words = asyncio.get_running_loop().run_in_executor(self._enders, _write, job, line)
        job.last_words.add_done_callback(self._written)

    async def said_why(self, job: Job) -> None:
        """Returns when the line is there, or its disk has had its time."""
        if job.last_words is not None:
            await asyncio.wait([job.last_words], timeout=LAST_WORDS_S)

    def _written(self, _: asyncio.Future[None]) -> None:
        self._waiting -= 1

    def write(self, job: Job, words: str) -> None:
        """Adds the line if the job runs. One that cannot be written is lost: the job's history has it too."""
        if job.phase == "running" and job.meta.role != "hold":
            line = "".join(letter if letter.isprintable() else "?" for letter in words)[:MAX_CHARS]
            self._enders.submit(_write, job, f"warpdeck: {line}")


def _write(job: Job, line: str) -> None:
    terminal = _terminal(job) if job.meta.pty else ""
    if job.meta.pty and not terminal:
        return
    script = WRITE_TERMINAL if terminal else WRITE
    paths = [terminal] if terminal else [job.output("err"), job.output("out")]
    user = as_user(job.meta.user, uid=job.meta.uid, gid=_group(job))
    with contextlib.suppress(OSError):
        run_for(WRITE_S, ["/bin/sh", "-c", script, "sh", line, *paths], **user)


def _group(job: Job) -> int:
    """The group of the job's user."""
    try:
        return pwd.getpwuid(job.meta.uid).pw_gid
    except KeyError:
        return os.getegid()


def _terminal(job: Job) -> str:
    """The terminal on which its shell runs, "" if that is gone."""
    shell = job.batch_shell(job.members())
    try:
        path = os.readlink(f"/proc/{shell}/fd/0") if shell else ""
    except OSError:
        return ""
    return path if path.startswith("/dev/pts/") else ""
