"""Unpacks a tree into a work folder, in a process of its own.

The process switches to the job's user before it reads the archive. Standard input is the archive. The order
arrives as one line of JSON on standard output, which is a socket. The answer is one line of JSON, too: the
reason if the tree cannot be used, whether that reason is a full disk, and whether the tree contains the submit
folder. The process begins as the agent's user, so that it needs no Python that the job's user may run. It
imports nothing after it has given up its rights.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import stat
import zlib
from typing import Any, Dict, List, Optional

from warpdeck_agent.client.visible import visible_word
from warpdeck_agent.wire.jsontext import dumps, loads

from .tar_stream import Member, TarError, TarStream

MAX_ADDRESS_BYTES = 512 << 20
"""The address space of the process. It needs a few megabytes, whatever the archive contains."""
MAX_ORDER_BYTES = 8 << 20
"""The largest order, which can name some thousands of links."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = "cannot unpack the snapshot: the disk is full"
_NAME_CHARS = 200
"""The most characters of a member's name in an error message."""


def main() -> int:
    """Carry out one order. Returns 0; the outcome is in the answer."""
    with socket.socket(fileno=os.dup(1)) as link:
        order = _read_order(link)
        if order is None:
            return 1
        _become_user(order["account"])
        error = _unpack_order(order, link)
        answer = {"error": error, "full": error == _FULL, "has_folder": os.path.isdir(order["folder"])}
        link.sendall(dumps(answer).encode() + b"\n")
    return 0


def _read_order(link: socket.socket) -> Optional[Dict[str, Any]]:
    """Return the order, or None if the agent is gone."""
    text = b""
    while not text.endswith(b"\n"):
        data = link.recv(1 << 16)
        if not data or len(text) > MAX_ORDER_BYTES:
            return None
        text += data
    found = loads(text.decode("utf-8", "surrogatepass"))
    assert isinstance(found, dict)
    return found


def _become_user(account: Optional[List[Any]]) -> None:
    """Set resource limits, and the user's ids and groups.

    `account` is null if the agent runs everything as itself.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    if account is not None:
        uid, gid, groups = account
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def _unpack_order(order: Dict[str, Any], link: socket.socket) -> str:
    """Unpack the tree. Returns why it cannot be used, "" if it can."""
    try:
        top = os.open(order["target"], _FOLDER)
        _make_usable(top)
        with open(0, "rb") as packed:
            _Checkout(top, link).extract(TarStream(packed))
        _link_ignored(order["root"], order["links"], top)
    except _Refused as error:
        return str(error)
    except (TarError, EOFError, zlib.error) as error:
        return f"cannot unpack the snapshot: {error}"
    except MemoryError:
        return "cannot unpack the snapshot: it needs too much memory"
    except ValueError as error:
        return f"cannot unpack the snapshot: a name in it is not allowed ({error})"
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return _FULL
        where = f" ({_shown(error.filename)})" if error.filename else ""
        reason = os.strerror(error.errno) if error.errno else str(error)
        return f"cannot unpack the snapshot: {reason}{where}"
    return ""


class _Refused(Exception):
    """A member that is not allowed, described in one sentence."""


class _Checkout:
    """Writes members below an open folder.

    Other processes of the user may change the folder meanwhile, so no link in a path is followed.
    """

    def __init__(self, top: int, link: socket.socket) -> None:
        self._top = top
        self._link = link

    def extract(self, archive: TarStream) -> None:
        """Unpack folders, plain files and symbolic links; refuse other members.

        Raises _Refused, TarError or OSError.
        """
        for member in archive.members():
            self._check_agent()
            self._take(archive, member)

    def _check_agent(self) -> None:
        """Stop if the agent has ended. Its successor unpacks the tree again."""
        if select.select([self._link], [], [], 0)[0]:
            raise _Refused("the agent has ended")

    def _take(self, archive: TarStream, member: Member) -> None:
        parts = [part for part in member.name.split(b"/") if part not in (b"", b".")]
        shown = _shown(member.name)
        if member.name.startswith(b"/") or b".." in parts:
            raise _Refused(f"the snapshot contains a path that leads outside: {shown}")
        if b"\0" in member.name + member.target:
            raise _Refused(f"the snapshot contains a name with a zero byte: {shown}")
        if member.kind == "other":
            raise _Refused(f"the snapshot contains an entry that is not a file, folder or link: {shown}")
        if not parts:
            return
        folder = self._enter(parts[:-1], shown)
        try:
            if member.kind == "folder":
                self._make_folder(parts[-1], folder)
            elif member.kind == "link":
                _unlink(parts[-1], folder)
                os.symlink(member.target, parts[-1], dir_fd=folder)
            else:
                self._write(archive, member, parts[-1], folder=folder)
        finally:
            os.close(folder)

    def _enter(self, parts: List[bytes], shown: str) -> int:
        """Return a descriptor of the folder below the top. Raises _Refused if a link is in the path."""
        folder = os.dup(self._top)
        for part in parts:
            try:
                below = _open_folder(part, folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise _Refused(f"a path in the snapshot leads through a link: {shown}") from error
                raise
            finally:
                os.close(folder)
            folder = below
        return folder

    def _make_folder(self, name: bytes, folder: int) -> None:
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            os.close(_open_folder(name, folder))

    def _write(self, archive: TarStream, member: Member, name: bytes, *, folder: int) -> None:
        _unlink(name, folder)
        mode = 0o755 if member.is_executable else 0o644
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
        with open(descriptor, "wb", buffering=0) as file:
            for data in archive.content():
                self._check_agent()
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]


def _open_folder(name: bytes, folder: int) -> int:
    descriptor = os.open(name, _FOLDER, dir_fd=folder)
    _make_usable(descriptor)
    return descriptor


def _make_usable(folder: int) -> None:
    """Restore the owner's permissions, which an earlier job may have removed from a folder of the tree."""
    found = os.fstat(folder)
    if found.st_uid == os.geteuid() and found.st_mode & 0o700 != 0o700:
        os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(found.st_mode) | 0o700)


def _unlink(name: bytes, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _link_ignored(root: str, names: List[str], top: int) -> None:
    """Link files that git ignores (data, environments) from the submit folder's root into the checkout."""
    for name in names:
        source = os.path.join(root, name)
        if os.path.basename(name) != name or name in ("", ".", "..") or not os.path.lexists(source):
            continue
        try:
            os.symlink(source, name, dir_fd=top)
        except FileExistsError:
            continue


def _shown(name: Any) -> str:
    """Return a name for a message: bounded and printable."""
    text = os.fsdecode(name) if isinstance(name, bytes) else str(name)
    return visible_word(text[:_NAME_CHARS])
