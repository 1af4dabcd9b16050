"""A program that opens and uses one user's files on the submit host with that user's rights.

It uses only the standard library. A root controller must not use a path that a user chose. It would access
the path with root's rights, and a hanging file system would block it. This program therefore drops its
privileges first. It reads requests from standard input, each as a line of JSON and `size` bytes, and answers
them in the same form and order. It ends when its input ends, or at SIGTERM once the current request has
returned.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import resource
import signal
import stat
import sys
from typing import Any, NoReturn

FILE_MODE, FOLDER_MODE = 0o666, 0o777
"""Modes before the job's umask is applied. The controller's own umask is stricter."""


def open_for_append(path: str, *, truncate: bool, umask: int) -> int:
    """Return a descriptor for appending. Missing folders are made. Raises OSError."""
    _make_folders(os.path.dirname(path), umask)
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, FILE_MODE)
        os.fchmod(descriptor, FILE_MODE & ~umask)
    except FileExistsError:
        descriptor = os.open(path, flags)
    _check_plain(descriptor, path)
    if truncate:
        os.ftruncate(descriptor, 0)
    return descriptor


def _make_folders(path: str, umask: int) -> None:
    if os.path.isdir(path):
        return
    _make_folders(os.path.dirname(path), umask)
    try:
        os.mkdir(path)
        os.chmod(path, FOLDER_MODE & ~umask)
    except FileExistsError:
        return


def _check_plain(descriptor: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)


def drop_privileges(uid: int) -> None:
    """Drop the privileges of this process to those of the user, with all of the user's groups.

    A uid without an account gets no groups. If this process does not run as root, nothing is done.
    """
    if os.geteuid() != 0 or uid == 0:
        return
    try:
        account = pwd.getpwuid(uid)
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
    except KeyError:
        os.setgroups([])
        os.setgid(uid)
    os.setuid(uid)


class Files:
    """The files that are open for the controller, by descriptor.

    Each method answers one request and raises OSError.
    """

    def __init__(self) -> None:
        self._probes: dict[int, str] = {}

    def append(self, path: str, truncate: bool, umask: int) -> dict[str, Any]:
        descriptor = open_for_append(path, truncate=truncate, umask=umask)
        return {"file": descriptor, "length": os.fstat(descriptor).st_size}

    def read(self, path: str) -> dict[str, Any]:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        _check_plain(descriptor, path)
        return {"file": descriptor, "length": os.fstat(descriptor).st_size}

    def probe(self, path: str, name: str) -> dict[str, Any]:
        """Create a file that exists until it is closed, so that a node can look for it."""
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o600, dir_fd=folder))
        except OSError:
            os.close(folder)
            raise
        self._probes[folder] = name
        return {"file": folder}

    def length(self, file: int) -> dict[str, Any]:
        return {"length": os.fstat(file).st_size}

    def write(self, file: int, data: bytes) -> dict[str, Any]:
        """Return the number of written bytes, and the error if not all could be written."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(file, left) :]
        except OSError as error:
            return {"written": len(data) - len(left), **_error_fields(error)}
        return {"written": len(data)}

    def piece(self, file: int, at: int, most: int) -> dict[str, Any]:
        return {"data": os.pread(file, most, at)}

    def close(self, file: int) -> dict[str, Any]:
        name = self._probes.pop(file, "")
        try:
            if name:
                os.unlink(name, dir_fd=file)
        finally:
            os.close(file)
        return {}

    def close_probes(self) -> None:
        for file in list(self._probes):
            with contextlib.suppress(OSError):
                self.close(file)


def _error_fields(error: OSError) -> dict[str, Any]:
    return {"errno": error.errno or errno.EIO, "error": error.strerror or str(error)}


def _end(number: int, frame: object) -> NoReturn:
    sys.exit(0)


def main(argv: list[str]) -> int:
    """Run the program `outputfile.py UID`."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    drop_privileges(int(argv[0]))
    signal.signal(signal.SIGTERM, _end)
    files, requests, out = Files(), sys.stdin.buffer, sys.stdout.buffer
    try:
        while line := requests.readline():
            request = json.loads(line)
            if size := request.pop("size"):
                request["data"] = requests.read(size)
            try:
                answer = getattr(files, request.pop("method"))(**request)
            except OSError as error:
                answer = _error_fields(error)
            data = answer.pop("data", b"")
            out.write(json.dumps({**answer, "size": len(data)}).encode() + b"\n" + data)
            out.flush()
    except BrokenPipeError:
        # Output that the interpreter flushes at its exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    finally:
        files.close_probes()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
