"""A file that is there for a moment, to find out whether a folder is the same folder on a node. Made with its user's rights.

Standard library only, and in threads: a file system may hang. A root controller makes it itself in folders of the user's own alone; in
all others, and where a file server does not let root write, a child does that has become the user: whoever names a folder has nothing
made or removed in it that they could not make or remove themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import secrets
import stat
import subprocess
from collections.abc import AsyncIterator
from concurrent.futures import Executor, Future
from functools import partial

CHILD_S = 10.0
_OWN = stat.S_IWUSR | stat.S_IXUSR
_MAKE, _REMOVE = 'set -C && : > "$1"', 'rm -f -- "$1"'


class ProbeFile:
    """Made at once, until it is removed. Raises OSError where the user may not make one."""

    def __init__(self, folder: str, *, uid: int) -> None:
        self.name = f".warpdeck-probe-{secrets.token_hex(8)}"
        self._uid = uid
        self._there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._is_ours = _may_here(self._there, uid) and _make(self.name, self._there)
            if not self._is_ours:
                _as_user(_MAKE, self.name, self._there, uid)
        except BaseException:
            os.close(self._there)
            raise

    def remove(self) -> None:
        """Raises OSError."""
        try:
            if self._is_ours:
                os.unlink(self.name, dir_fd=self._there)
            else:
                _as_user(_REMOVE, self.name, self._there, self._uid)
        finally:
            os.close(self._there)


@contextlib.asynccontextmanager
async def there_for_a_moment(pool: Executor, folder: str, *, uid: int, answer_s: float) -> AsyncIterator[str]:
    """The name of such a file. It goes at the end, also where whoever asks is cancelled, or hears of a hang, while it is being made.

    Raises TimeoutError where the file system gives no answer for so long, OSError where the user may not make one.
    """
    making = pool.submit(ProbeFile, folder, uid=uid)
    made = asyncio.wrap_future(making)
    made.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to hear it
    try:
        async with asyncio.timeout(answer_s):
            name = (await asyncio.shield(made)).name
        yield name
    finally:
        if making.done():
            await asyncio.get_running_loop().run_in_executor(pool, _remove, making)
        elif not making.cancel():
            making.add_done_callback(partial(_remove_late, pool))


def _remove(making: Future[ProbeFile]) -> None:
    with contextlib.suppress(OSError):
        making.result().remove()


def _remove_late(pool: Executor, making: Future[ProbeFile]) -> None:
    """In the thread that has made it, or in the loop's, which nothing may hold up."""
    try:
        pool.submit(_remove, making)
    except RuntimeError:  # the program ends, and waits for this thread
        _remove(making)


def _may_here(there: int, uid: int) -> bool:
    """Whether this process may do it itself."""
    if os.geteuid() != 0 or uid == 0:
        return True
    status = os.fstat(there)
    return status.st_uid == uid and status.st_mode & _OWN == _OWN


def _make(name: str, there: int) -> bool:
    """False where root may not."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(name, flags, 0o600, dir_fd=there))
    except PermissionError:
        if os.geteuid() != 0:
            raise
        return False
    return True


def _as_user(command: str, name: str, there: int, uid: int) -> None:
    """In the folder itself, whatever its path leads to by now. Raises OSError."""
    group, groups = uid, []
    with contextlib.suppress(KeyError):
        account = pwd.getpwuid(uid)
        group, groups = account.pw_gid, os.getgrouplist(account.pw_name, account.pw_gid)
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", f'umask 077; cd "/proc/self/fd/{there}" && {command}', "sh", name],
            user=uid,
            group=group,
            extra_groups=groups,
            pass_fds=[there],
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=CHILD_S,
            check=False,
        )
    except subprocess.SubprocessError as error:
        raise OSError(f"user {uid}: {error}") from error
    if done.returncode:
        raise PermissionError(f"user {uid} can make no file there")
