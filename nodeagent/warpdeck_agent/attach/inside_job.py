"""Starting a process inside a running job: as its user, in its group, with its mark, joined to us by a socket.

Standard input and output are one socket, so that whoever relays them needs one form for processes and for ports. Standard
error is a second one: before anything runs it is the gate behind which the process waits until it is in the job's group.
Nothing keeps such a process: it ends with the job, and sees the end of its input when the relay goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from typing import Dict, List, Set

from warpdeck_agent.gpu.gpu_names import with_gpu_names
from warpdeck_agent.isolation.hold import contain
from warpdeck_agent.isolation.private_folders import within
from warpdeck_agent.launch.launch import Job
from warpdeck_agent.linux.env_passthrough import carrying
from warpdeck_agent.start.launch_start import job_variables, with_programs
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.users.accounts import account_environment, as_user, group_of

GATE = 'read -r WARPDECK_GO <&2 && [ "$WARPDECK_GO" = go ] || exit 1; unset WARPDECK_GO; cd "$1" 2>/dev/null || cd /; shift; exec "$@"'
ERROR_TAIL_BYTES = 4096
"""How much of what the process says on its standard error is kept, to tell why it failed."""
REAP_FIRST_S, REAP_LAST_S = 0.02, 2.0
"""How often a process whose output has ended is looked at until it has ended too."""


class Inside:
    """A process inside a job. `link` is its standard input and output."""

    def __init__(self, process: subprocess.Popen[bytes], link: socket.socket, errors: socket.socket) -> None:
        self._process = process
        self.link = link
        self._errors = errors
        self._said = bytearray()

    async def listen(self) -> None:
        """Keeps the end of what it says on standard error, until it closes it."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                data = await loop.sock_recv(self._errors, ERROR_TAIL_BYTES)
                if not data:
                    return
                self._said += data
                del self._said[:-ERROR_TAIL_BYTES]
        except OSError:
            return

    async def reap(self) -> int:
        """Its exit code once it has ended, negative for a signal."""
        pause_s = REAP_FIRST_S
        while self._process.poll() is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, REAP_LAST_S)
        return int(self._process.returncode)

    def last_words(self) -> str:
        """The last line it said on standard error."""
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def hang_up(self) -> None:
        """Nobody listens any more: its process group is told, by TERM too, because whoever began us may have HUP ignored."""
        for number in (signal.SIGHUP, signal.SIGTERM):
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)

    def close(self) -> None:
        self.link.close()
        self._errors.close()


class Entrance:
    """Starts processes inside jobs, and waits for those that outlive their stream, so that none stays a zombie."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._tasks: Set[asyncio.Task[int]] = set()

    async def start(self, job: Job, argv: List[str], env: Dict[str, str]) -> Inside:
        """Raises OSError, LaunchError, or ValueError for what cannot be passed on."""
        made = environment(job, env, spool=self._spool)
        return await asyncio.get_running_loop().run_in_executor(None, lambda: _start(job, argv, made))

    def let_go(self, process: Inside) -> None:
        """Nobody is joined to it any more."""
        process.hang_up()
        process.close()
        task = asyncio.get_running_loop().create_task(process.reap())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _start(job: Job, argv: List[str], env: Dict[str, str]) -> Inside:
    """Runs in a thread: Popen blocks."""
    meta = job.meta
    ours, theirs = socket.socketpair()
    errors, gate = socket.socketpair()
    try:
        process = within(
            meta.private,
            lambda: subprocess.Popen(
                ["/bin/sh", "-c", GATE, "inside", meta.work_dir, *carrying(argv, env)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=gate.fileno(),
                start_new_session=True,
                env=env,
                cwd="/",
                **as_user(meta.user, uid=meta.uid, gid=group_of(meta)),
            ),
        )
    except BaseException:
        ours.close()
        errors.close()
        raise
    finally:
        theirs.close()
        gate.close()
    contain(process.pid, meta.hold)
    errors.sendall(b"go\n")
    for link in (ours, errors):
        link.setblocking(False)
    return Inside(process, ours, errors)


def environment(job: Job, env: Dict[str, str], *, spool: Spool) -> Dict[str, str]:
    """The job's environment on this node, with what the node knows of the account."""
    made = {**env, **account_environment(job.meta.uid), "PWD": job.meta.work_dir, **job_variables(job, spool)}
    return with_programs(with_gpu_names(made, job.meta.gpu_names), spool)
