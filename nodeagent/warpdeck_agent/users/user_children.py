"""Child processes of the agent that a job's user can delay.

Examples are a login shell and the process that unpacks a tree. They run as the user, who may stop any of
them. A child is in the cgroups of its `containment` before it gets its order, so its memory and CPU time count
there. Its output, its time and the number of children of one user are limited. No thread waits for it, so
that it delays only launches of its own user.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, Dict, List, Set, Tuple

from warpdeck_agent.isolation.containment_handle import ContainmentHandle, contain
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import Key

MOST_OF_USER = 4
"""The most children of one user at a time. Further ones wait, and delay no other user."""
DIE_S = 2.0
"""How long to wait for a killed child, in seconds. A child that hangs in the kernel is abandoned."""
REAP_FIRST_S, REAP_LAST_S = 0.002, 0.1
"""First and longest interval in seconds between checks whether a child with finished output has exited."""
READ_BYTES = 1 << 16


class ChildFailed(Exception):
    """The child failed or exceeded its limits. The text is a clause with the child as its subject."""


@dataclass(frozen=True)
class UserChild:
    """A child process that acts as a user.

    `order` is sent to it on its standard output, which is a socket, when it is in the launch's cgroups.
    `stdin` is a descriptor. `drop` are Popen's arguments that switch to the user.
    """

    argv: List[str]
    env: Dict[str, str]
    limit_s: float
    most_bytes: int
    order: bytes = b""
    containment: ContainmentHandle = field(default_factory=ContainmentHandle)
    stdin: int = subprocess.DEVNULL
    drop: Dict[str, Any] = field(default_factory=dict)


class UserChildren:
    """Runs the children of all launches. `pool` has the threads in which they are started."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._slots: Dict[int, asyncio.Semaphore] = {}
        self._running: Dict[Key, asyncio.Task[bytes]] = {}
        self._stopped: Set[Key] = set()

    async def run(self, child: UserChild, *, uid: int) -> bytes:
        """Run the child and return its output, once it has ended with status 0. Raises ChildFailed."""
        async with self._slots.setdefault(uid, asyncio.Semaphore(MOST_OF_USER)):
            return await self._run(child)

    async def prepare(self, child: UserChild, *, key: Key, uid: int) -> bytes:
        """Run the child for a launch that has not begun, and return its output.

        Raises ChildFailed, or LaunchError if `stop` ended the child.
        """
        task = asyncio.get_running_loop().create_task(self.run(child, uid=uid))
        self._running[key] = task
        try:
            return await task
        except asyncio.CancelledError:
            if key in self._stopped:
                raise LaunchError("the job was ended before it began") from None
            raise
        finally:
            del self._running[key]
            self._stopped.discard(key)

    def stop(self, key: Key) -> bool:
        """End the child of that launch, whether it is running or waiting. Returns False if there is none."""
        task = self._running.get(key)
        if task is None or task.done():
            return False
        self._stopped.add(key)
        task.cancel()
        return True

    async def _run(self, child: UserChild) -> bytes:
        starting = self._pool.submit(_start, child)
        try:
            process, link = await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_discard)
            raise
        except OSError as error:
            raise ChildFailed(f"cannot be started: {error.strerror}") from error
        try:
            return await asyncio.wait_for(_communicate(process, link, child), child.limit_s)
        except asyncio.TimeoutError:
            raise ChildFailed(f"took longer than {child.limit_s:g} s") from None
        finally:
            link.close()
            if process.returncode is None:
                await _end(process)


def _start(child: UserChild) -> Tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the child in its cgroups, waiting for its order. Blocks for a few milliseconds."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            child.argv,
            stdin=child.stdin,
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=child.env,
            cwd="/",
            **child.drop,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    try:
        contain(process.pid, child.containment)
    except OSError:
        ours.close()
        process.kill()
        process.wait()
        raise
    ours.setblocking(False)
    return process, ours


def _discard(starting: Future[Tuple[subprocess.Popen[bytes], socket.socket]]) -> None:
    """Kill a child that is no longer needed.

    It has not got its order yet, so no program of the user runs in it.
    """
    if not starting.cancelled() and starting.exception() is None:
        process, link = starting.result()
        link.close()
        process.kill()
        process.wait()


async def _communicate(process: subprocess.Popen[bytes], link: socket.socket, child: UserChild) -> bytes:
    loop = asyncio.get_running_loop()
    output = bytearray()
    with contextlib.suppress(ConnectionError):  # a child that has already ended may have printed something
        await loop.sock_sendall(link, child.order)
    with contextlib.suppress(ConnectionError):
        while data := await loop.sock_recv(link, READ_BYTES):
            output += data
            if len(output) > child.most_bytes:
                raise ChildFailed(f"printed more than {child.most_bytes} bytes")
    code = await _reap(process)
    if code:
        raise ChildFailed(f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}")
    return bytes(output)


async def _reap(process: subprocess.Popen[bytes]) -> int:
    pause_s = REAP_FIRST_S
    while process.poll() is None:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, REAP_LAST_S)
    return int(process.returncode)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill its process group, which exists as long as the child has not been reaped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_reap(process), DIE_S)
