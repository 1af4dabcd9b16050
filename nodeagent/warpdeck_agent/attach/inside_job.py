"""Starts processes inside a running job, each connected to the agent by a socket.

A process runs as the job's user, in the job's cgroups and with the job's tag. Its standard input and output
are one socket, so that a relay can treat processes and ports alike. Its standard error is a second socket. At
the second socket, the process also waits before its program runs, until it is in the job's cgroups. A process
ends with the job, and its input ends when the relay ends.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from typing import Dict, List

from warpdeck_agent.gpu.gpu_names import with_gpu_names
from warpdeck_agent.isolation.containment_handle import contain
from warpdeck_agent.isolation.private_folders import within
from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.env_passthrough import with_all_variables
from warpdeck_agent.start.launch_start import job_variables, with_programs
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.users.accounts import account_environment, as_user, group_of

from .joined_process import JobProcess

GATE = 'read -r WARPDECK_GO <&2 && [ "$WARPDECK_GO" = go ] || exit 1; unset WARPDECK_GO; cd "$1" 2>/dev/null || cd /; shift; exec "$@"'


class ProcessStarter:
    """Starts processes inside jobs.

    It also waits for processes that outlive their stream, so that none stays a zombie.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._background = BackgroundTasks()

    async def start(self, launch: LocalLaunch, argv: List[str], env: Dict[str, str]) -> JobProcess:
        """Start a process in the job.

        Raises OSError, LaunchError, or ValueError for arguments that cannot be passed on.
        """
        made = environment(launch, env, spool=self._spool)
        return await asyncio.get_running_loop().run_in_executor(None, lambda: _start(launch, argv, made))

    def release(self, process: JobProcess) -> None:
        """End a process, because its stream has ended."""
        process.hang_up()
        process.close()
        self._background.start(process.reap())


def _start(launch: LocalLaunch, argv: List[str], env: Dict[str, str]) -> JobProcess:
    """Start the process, in a thread because Popen blocks."""
    meta = launch.meta
    ours, theirs = socket.socketpair()
    errors, gate = socket.socketpair()
    try:
        process = within(
            meta.private,
            lambda: subprocess.Popen(
                ["/bin/sh", "-c", GATE, "inside", meta.work_dir, *with_all_variables(argv, env)],
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
    return JobProcess(process, ours, errors)


def environment(launch: LocalLaunch, env: Dict[str, str], *, spool: Spool) -> Dict[str, str]:
    """Return `env` with the variables that the job and the account of its user have on this node."""
    made = {
        **env,
        **account_environment(launch.meta.uid),
        "PWD": launch.meta.work_dir,
        **job_variables(launch, spool),
    }
    return with_programs(with_gpu_names(made, launch.meta.gpu_names), spool)
