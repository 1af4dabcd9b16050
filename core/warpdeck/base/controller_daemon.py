"""The controller as a background process: starting it, stopping it, and the lock that allows one per home
directory. In a home of Slurm, the process is a gateway instead.

The command line calls `ensure_running`, so the imports here are few.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time

from warpdeck_agent.client.access import connect_path

from .errors import UserError
from .paths import OWN, SLURM, Paths, start_refusal
from .standby_files import serving_elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

MODULES = {
    "controller": "warpdeck.daemon.controller_process",
    "gateway": "warpdeck.daemon.gateway_process",
    "site gateway": "warpdeck.daemon.site_gateway_process",
}
"""Maps the name of a process to its main module."""
START_S = {OWN: 20.0, SLURM: 150.0}
"""Maps an engine to the longest time without progress of a start. A gateway answers when it has read the queue of Slurm,
and a slow slurmctld takes a minute for one answer.
"""
LONGEST_START_S = 3600.0
"""Longest time of a start that makes progress. A migration of a million jobs takes minutes on a busy machine."""
STOP_S = 20.0
MAX_ERROR_BYTES = 64 * 1024
"""Maximum number of bytes read from the output of a process that failed to start. A pipe holds as much."""
MAX_LOCK_BYTES = 300
"""A pid and the name of a machine."""


def connect_socket(paths: Paths) -> socket.socket:
    """Return a socket connected to the home's controller, for use with asyncio. Raises OSError."""
    return socket.socket(fileno=connect_path(paths.socket).detach())


def is_running(paths: Paths) -> bool:
    """Return whether a controller answers."""
    try:
        connect_socket(paths).close()
    except OSError:
        return False
    return True


def ensure_running(paths: Paths, *, local_node: bool = True) -> bool:
    """Start the process of the home unless it answers. Returns True if it was started. Raises UserError."""
    import subprocess  # The import takes milliseconds, and it is needed only if no controller runs yet.

    if is_running(paths):
        return False
    paths.check_engine()
    if elsewhere := serving_elsewhere(paths):
        raise elsewhere
    engine, daemon = paths.engine, paths.daemon
    if host := other_host(paths):
        raise UserError(
            f"the {daemon} in {paths.home} runs on {host}",
            f"use warpdeck on {host}, stop it there with `warpdeck down`, or start another one with a folder of this "
            f"machine: `WARPDECK_HOME=FOLDER warpdeck --engine {engine} up`",
        )
    if paths.is_of_another:
        raise UserError(f"no {daemon} runs in {paths.home}", "ask its owner to start it with `warpdeck up`")
    if refused := start_refusal(paths):
        raise UserError(
            f"no {daemon} runs, and {refused}", f"start it with `WARPDECK_HOME={paths.home} warpdeck up`"
        )
    try:
        os.makedirs(paths.home, mode=0o700, exist_ok=True)
        log = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(
            f"cannot use {paths.home}: {os.strerror(error.errno or 0)}",
            "set WARPDECK_HOME to a folder that you own",
        ) from error
    argv = [sys.executable, "-m", MODULES[daemon], "--home", paths.home]
    if engine == OWN and not local_node:
        argv.append("--no-local-node")
    import signal

    # SIGHUP requests a reload. It must stay pending until the new process handles it, and not end that process.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(log)
    wait_for_start(paths, child)
    child.returncode = 0
    return True


def wait_for_start(paths: Paths, child: subprocess.Popen[bytes]) -> None:
    """Wait until a controller or gateway answers: the started child, or another process that was faster.

    The wait goes on as long as the child uses CPU time. Raises UserError with the child's error message.
    """
    began = progress_at = time.monotonic()
    used = 0
    try:
        while time.monotonic() - progress_at < START_S[paths.engine]:
            if (now_used := _cpu_ticks(child.pid)) > used and time.monotonic() - began < LONGEST_START_S:
                used, progress_at = now_used, time.monotonic()
            if is_running(paths):
                return
            if child.poll() is not None and not running_pid(paths) and not is_running(paths):
                raise _not_started(paths, child)
            time.sleep(0.01)
    finally:
        if child.stderr is not None:
            child.stderr.close()
    raise UserError(f"the {paths.daemon} does not answer", f"see {paths.log}")


def _cpu_ticks(pid: int) -> int:
    """Return the CPU time that a process has used, in clock ticks, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, IndexError, ValueError):
        return 0


def _not_started(paths: Paths, child: subprocess.Popen[bytes]) -> UserError:
    """Return the error that the child printed before it ended: a sentence, and in some cases a next step."""
    output = child.stderr.read(MAX_ERROR_BYTES).decode("utf-8", "replace") if child.stderr is not None else ""
    message, _, hint = output.strip().rpartition("\n") if output.count("\n") > 1 else (output.strip(), "", "")
    return UserError(
        f"the {paths.daemon} did not start: {message or 'no error message'}", hint or f"see {paths.log}"
    )


def stop(paths: Paths) -> bool:
    """Stop the controller or gateway; agents and jobs go on. Returns False if none ran. Raises UserError."""
    if paths.is_of_another and os.geteuid() != 0:
        raise UserError(f"the {paths.daemon} in {paths.home} belongs to another user", "ask its owner")
    if host := other_host(paths):
        raise UserError(f"the {paths.daemon} in {paths.home} runs on {host}", f"stop it on {host}")
    pid = running_pid(paths)
    if pid == 0:
        return False
    import signal

    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError as error:
        raise UserError(
            f"the {paths.daemon} in {paths.home} belongs to another user", "ask its owner"
        ) from error
    deadline = time.monotonic() + STOP_S
    while running_pid(paths) == pid:
        if time.monotonic() > deadline:
            raise UserError(f"the {paths.daemon} (pid {pid}) did not stop", f"see {paths.log}")
        time.sleep(0.02)
    return True


def running_pid(paths: Paths) -> int:
    """Return the pid of the process that holds the home's lock, or 0 if none does."""
    pid = _lock_holder(paths)[:1]
    return int(pid[0]) if pid and pid[0].isdigit() else 0


def other_host(paths: Paths) -> str:
    """Return the name of the other machine on which the home's gateway runs, or "".

    Login nodes often share the folders of their users, but a socket serves one machine only.
    """
    holder = _lock_holder(paths)
    if not holder and paths.engine == SLURM:
        from .home_owner import owning_host  # It is needed only if no process of this machine has the lock.

        return owning_host(paths)
    host = " ".join(holder[1:])
    return "" if host == os.uname().nodename else host


def _lock_holder(paths: Paths) -> list[str]:
    """Return the pid and, for a gateway, the machine of the process that holds the lock. Empty if none does."""
    try:
        descriptor = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # Only the first line counts: a process that takes the lock writes it over that of the one before.
        return os.pread(descriptor, MAX_LOCK_BYTES, 0).decode("ascii", "replace").partition("\n")[0].split()
    except OSError:
        return []  # The file system has no locks, so no process holds one. `take_lock` reports it.
    finally:
        os.close(descriptor)
    return []


def take_lock(paths: Paths) -> int:
    """Take the lock that makes this process the home's only controller or gateway, and return its descriptor.

    Raises UserError.
    """
    descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UserError(
            f"a {paths.daemon} is already running in {paths.home}", "see `warpdeck status`"
        ) from error
    except OSError as error:  # some network file systems, such as Lustre without the mount option flock
        os.close(descriptor)
        raise UserError(
            f"cannot lock {paths.lock}: {os.strerror(error.errno or 0)}",
            "set WARPDECK_HOME to a folder on a local disk",
        ) from error
    host = f" {os.uname().nodename}" if paths.engine == SLURM else ""
    line = f"{os.getpid()}{host}\n".encode()
    os.pwrite(descriptor, line, 0)
    os.ftruncate(descriptor, len(line))
    return descriptor
