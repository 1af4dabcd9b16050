"""Starts the agent as a daemon that outlives its starter, and connects standard input and output to it.

`start` and `attach` run over SSH, where a user's shell start files may print lines first. So their own output
begins with SENTINEL.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.util
import json
import os
import select
import socket
import sys
import time
from typing import Any, Dict, List

from warpdeck_agent.linux.linger import UNIT, scope_command
from warpdeck_agent.linux.own_program import OWN, build_id, own_command
from warpdeck_agent.users.machine_lock import MachineTakenError, answer, claim, refusal
from warpdeck_agent.wire.frames import SENTINEL

START_S = 15.0
"""How long a starting agent may take to answer, in seconds."""
MAX_LOG_BYTES = 4 * 1024 * 1024
"""If agent.log is larger than this when the agent starts, it is replaced by an empty one."""
LIBRARY = "lib"
"""Name of the subfolder with modules unpacked from the archive."""
RELAY_BYTES = 256 * 1024


def serve(folder: str) -> int:
    """Run the agent in the foreground and return the exit code.

    A second agent for the same folder exits at once.
    """
    sys.path.insert(0, os.path.join(folder, LIBRARY))
    gc.disable()  # Imported objects are never freed, so collections during the imports would be in vain.
    import asyncio  # Imported here because `start` and `attach` do without it.

    from .server import Agent

    gc.freeze()
    gc.enable()
    os.umask(0o022)  # files that jobs read set their own mode
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(folder, "agent.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _lock(lock):
        print("an agent already runs in this folder", file=sys.stderr)
        return 1
    try:
        held = claim()
    except MachineTakenError as error:
        print(error, file=sys.stderr)
        return 1

    async def run() -> None:
        if held is not None:
            asyncio.get_running_loop().add_reader(held, answer, held)
        await Agent(folder, build_id()).run()

    asyncio.run(run())
    os._exit(0)  # A thread that hangs in the driver must not delay the exit, nor the start of the next agent.


def _unpack_library(folder: str) -> None:
    """Unpack pynvml's module and compile its bytecode for `serve`.

    An agent that compiled the module itself would permanently use 15 MB more memory. An archive that contains
    bytecode needs no unpacked module; one that an earlier archive left is removed.
    """
    import py_compile  # Imported here because otherwise every attach would load both modules.
    import zipfile

    archive = os.path.abspath(sys.argv[0])
    if not archive.endswith(".pyz"):
        return
    path = os.path.join(folder, LIBRARY, "pynvml.py")
    with zipfile.ZipFile(archive) as packed:
        if "pynvml.pyc" in packed.namelist():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return
        source = packed.read("pynvml.py")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if file.read() == source and os.path.exists(importlib.util.cache_from_source(path)):
            return
    with open(path + ".new", "wb") as file:
        file.write(source)
    os.replace(path + ".new", path)
    py_compile.compile(path)


def _lock(descriptor: int) -> bool:
    """Take the agent's lock.

    Waits up to 5 s for an agent that is just exiting; returns whether the lock was taken.
    """
    deadline = time.monotonic() + 5.0
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)


def start(folder: str) -> int:
    """Start the agent in the background unless one answers, wait until it answers, and print the result."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if answers(folder):
        return _print_result({"ok": True, "running": True})
    taken = refusal(folder)
    if taken:
        return _print_result({"ok": False, "error": taken})
    # On a full disk the agent compiles the module from the archive instead.
    with contextlib.suppress(OSError):
        _unpack_library(folder)
    scope = scope_command(UNIT + os.urandom(4).hex())
    _detach([*scope, *own_command(), "serve", "--dir", folder], os.path.join(folder, "agent.log"))
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if answers(folder):
            return _print_result({"ok": True, "running": False})
        time.sleep(0.01)
    return _print_result({"ok": False, "error": f"the agent did not start; see {folder}/agent.log"})


def attach(folder: str) -> int:
    """Relay standard input and output to the agent's socket until either side ends.

    A side that is killed while it has unread data counts as ended.
    """
    try:
        link = _connect(folder)
    except OSError as error:
        return _print_result({"ok": False, "error": f"no agent answers in {folder}: {error.strerror}"})
    _print_result({"ok": True, "attached": True})
    with contextlib.suppress(ConnectionError):
        _relay(link)
    return 0


def _relay(link: socket.socket) -> None:
    """Copy data in both directions until one side ends.

    Raises ConnectionError if the other side closes during a write.
    """
    sources: List[Any] = [0, link]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if 0 in ready:
            data = os.read(0, RELAY_BYTES)
            if not data:
                return
            link.sendall(data)
        if link in ready:
            data = link.recv(RELAY_BYTES)
            if not data:
                return
            _write_all(1, data)


def answers(folder: str) -> bool:
    """Return whether an agent listens in `folder`."""
    try:
        _connect(folder).close()
    except OSError:
        return False
    return True


def _connect(folder: str) -> socket.socket:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(f"/proc/self/fd/{descriptor}/agent.sock")
    except OSError:
        link.close()
        raise
    finally:
        os.close(descriptor)
    return link


def _detach(argv: List[str], log: str) -> None:
    """Run the command as a daemon: in a session of its own and without our open files."""
    if os.path.exists(log) and os.path.getsize(log) > MAX_LOG_BYTES:
        os.unlink(log)
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o022)
    null = os.open("/dev/null", os.O_RDWR)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 256)
    os.execve(argv[0], argv, {**os.environ, OWN: "1"})


def _print_result(result: Dict[str, Any]) -> int:
    _write_all(1, (SENTINEL + json.dumps(result) + "\n").encode())
    return 0 if result.get("ok") else 1


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
