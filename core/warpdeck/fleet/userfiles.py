"""Access to users' files on the submit host: for copying output, for reading it, and for visibility probes.

One child process for each user opens and uses the files; it has dropped its privileges to those of the user
(outputfile). Only the user's own rights therefore apply. A hanging file system delays only its user's files:
not the event loop, not a shared thread and not the controller's exit. A child that does not answer in time is
abandoned. Requests for the same path fail while it hangs, and a new child serves other paths.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import secrets
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from . import outputfile

ANSWER_S = 30.0
IDLE_S = 10.0
"""Seconds after which a child without open files is ended."""
MAX_HUNG = 4
"""Maximum number of children of one user that hang in a system call.

While this many hang, the user's requests are refused at once.
"""
PIECE_BYTES = 256 * 1024

_Answer = dict[str, Any]


class _Child:
    """One child process and its pending requests. Answers come in the order of the requests."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self._in, self._out = process.stdin, process.stdout
        self._pending: deque[asyncio.Future[_Answer]] = deque()
        self.open = 0
        self.is_over = False
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_idle(self) -> bool:
        return not self._pending and self.open <= 0

    def send(self, fields: dict[str, Any], data: bytes = b"") -> asyncio.Future[_Answer]:
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._pending.append(answer)
        self._in.write(json.dumps({**fields, "size": len(data)}).encode() + b"\n" + data)
        return answer

    def retire(self) -> None:
        """Send no further requests. A hanging child ends when its system call returns."""
        self.is_over = True
        self._in.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()

    async def _read(self) -> None:
        try:
            while line := await self._out.readline():
                fields: _Answer = json.loads(line)
                fields["data"] = await self._out.readexactly(fields.pop("size"))
                self._deliver(self._pending.popleft(), fields)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.is_over = True
            self._in.close()
            for answer in self._pending:
                if not answer.done():
                    answer.set_exception(OSError(errno.EIO, "the process that used it has ended"))
                    # Mark the exception as retrieved, because no caller may be waiting for it.
                    answer.exception()
        await self.process.wait()

    def _deliver(self, answer: asyncio.Future[_Answer], fields: _Answer) -> None:
        self.open += "file" in fields
        if not answer.done():
            answer.set_result(fields)
        else:
            self.drop(fields)

    def drop(self, answer: _Answer) -> None:
        """Close a file that was opened for a caller who no longer waits."""
        if "file" in answer and not self.is_over:
            self.open -= 1
            self.send({"method": "close", "file": answer["file"]})

    async def wait_ended(self) -> None:
        await asyncio.wait([self._reading])


class UserFile:
    """An open file of a user, which a process with the user's rights reads.

    `length` is its length in bytes at opening. All methods raise OSError, including TimeoutError.
    """

    def __init__(self, files: UserFiles, child: _Child, *, uid: int, path: str, answer: _Answer) -> None:
        self._files, self._child = files, child
        self._uid, self.path = uid, path
        self._number = answer["file"]
        self.length = int(answer.get("length", 0))

    async def length_now(self) -> int:
        return int((await self._request("length"))["length"])

    async def write(self, data: bytes) -> int:
        """Append data and return the number of written bytes.

        If not all bytes were written, the next call raises the reason.
        """
        answer = await self._request("write", data=data)
        if "errno" in answer and not answer["written"]:
            raise OSError(answer["errno"], answer["error"], self.path)
        return int(answer["written"])

    async def piece(self, at: int) -> bytes:
        """Return at most PIECE_BYTES at that offset, or nothing at the end of the file."""
        data: bytes = (await self._request("piece", at=at, most=PIECE_BYTES))["data"]
        return data

    async def close(self) -> None:
        """Close the file, even if its file system hangs."""
        self._child.open -= 1
        with contextlib.suppress(OSError):
            await self._request("close")

    async def _request(self, method: str, *, data: bytes = b"", **fields: Any) -> _Answer:
        request = {"method": method, "file": self._number, **fields}
        return await self._files.send_request(self._child, self._uid, self.path, request, data=data)


class UserFiles:
    """The child processes of all users.

    Requests raise the OSError that the user's process got, EIO if the child has ended, or TimeoutError if it
    hangs.
    """

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._children: dict[int, _Child] = {}
        self._starting: dict[int, asyncio.Lock] = {}
        self._hung: dict[int, dict[_Child, set[str]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, path: str, *, uid: int, truncate: bool, umask: int) -> UserFile:
        """Open a file for appending. Missing folders are made."""
        return await self._open(
            uid, path, {"method": "append", "path": path, "truncate": truncate, "umask": umask}
        )

    async def read(self, path: str, *, uid: int) -> UserFile:
        """Open a regular file for reading."""
        return await self._open(uid, path, {"method": "read", "path": path})

    @contextlib.asynccontextmanager
    async def probe(self, folder: str, *, uid: int, answer_s: float) -> AsyncIterator[str]:
        """Create a file in the folder with the user's rights, for the duration of the context.

        The context's value is the file's name.
        """
        name = f".warpdeck-probe-{secrets.token_hex(8)}"
        made = await self._open(uid, folder, {"method": "probe", "path": folder, "name": name}, answer_s)
        try:
            yield name
        finally:
            await asyncio.shield(self._spawn(made.close()))

    async def close(self) -> None:
        """End the children. Those that hang are abandoned."""
        children = [*self._children.values()]
        self._children.clear()
        for child in children:
            child.retire()
        if children:
            await asyncio.wait([self._spawn(child.wait_ended()) for child in children], timeout=1.0)

    async def _open(
        self, uid: int, path: str, fields: dict[str, Any], answer_s: float | None = None
    ) -> UserFile:
        child = await self._child(uid, path)
        answer = await self.send_request(child, uid, path, fields, answer_s=answer_s)
        return UserFile(self, child, uid=uid, path=path, answer=answer)

    async def send_request(
        self,
        child: _Child,
        uid: int,
        path: str,
        fields: dict[str, Any],
        *,
        data: bytes = b"",
        answer_s: float | None = None,
    ) -> _Answer:
        """Send a request to the child and return its answer."""
        if child.is_over:
            raise OSError(errno.EIO, "the process that used it has ended", path)
        answer = child.send(fields, data)
        try:
            await asyncio.wait([answer], timeout=self._answer_s if answer_s is None else answer_s)
        except asyncio.CancelledError:
            if not answer.cancel() and answer.exception() is None:
                child.drop(answer.result())
            raise
        if not answer.done():
            answer.cancel()
            self._abandon(child, uid, path)
            raise _hangs(path)
        found = answer.result()
        if child.is_idle:
            asyncio.get_running_loop().call_later(IDLE_S, self._end_idle, uid, child)
        if "errno" in found and "written" not in found:
            raise OSError(found["errno"], found["error"], path)
        return found

    async def _child(self, uid: int, path: str) -> _Child:
        """Return the user's child, which is started if needed."""
        hung = self._hung.get(uid, {})
        if len(hung) >= MAX_HUNG or any(path in paths for paths in hung.values()):
            raise _hangs(path)
        async with self._starting.setdefault(uid, asyncio.Lock()):
            child = self._children.get(uid)
            if child is None or child.is_over:
                child = self._children[uid] = _Child(await _start(uid))
            return child

    def _abandon(self, child: _Child, uid: int, path: str) -> None:
        if self._children.get(uid) is child:
            del self._children[uid]
        self._hung.setdefault(uid, {}).setdefault(child, set()).add(path)
        child.retire()
        self._spawn(self._forget(child, uid))

    async def _forget(self, child: _Child, uid: int) -> None:
        await child.wait_ended()
        self._hung.get(uid, {}).pop(child, None)

    def _end_idle(self, uid: int, child: _Child) -> None:
        if child.is_idle and self._children.get(uid) is child:
            del self._children[uid]
            child.retire()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _hangs(path: str) -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "file system does not answer", path)


async def _start(uid: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", outputfile.__file__, str(uid)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Otherwise a hanging child would keep one of our descriptors open.
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
    )
