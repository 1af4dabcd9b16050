"""Reads from /proc the shell that sent a request: its arguments, environment and folder.

The shell must hold the answer FIFO of the request open. This proves that its process id was not reused and
that it is visible in our namespace. It must also have the same rights, groups and namespaces as this process,
so that files which we read for it are the files that it would read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from typing import Self

from warpdeck.base.errors import UserError
from warpdeck.base.paths import OWN, Paths, default_paths
from warpdeck.notation.options.submit_files import LIMITS_FILE
from warpdeck.slurm.shims.sbatch_script import ANSWER_FD
from warpdeck_agent.client.process import NICENESS, UMASK, by_name, is_text

from .request_fifos import ShellRequest

MAX_BLOCK_BYTES = 8 * 1024 * 1024
"""Largest size of the arguments and of the environment in bytes. It is more than a request may have."""
READ_BYTES = 1 << 16
SAME_STATUS = (b"Uid:", b"Gid:", b"Groups:", b"CapEff:", b"NoNewPrivs:", b"Seccomp:")
"""Lines of a process's status that must equal ours."""
VIEW = ("ns/mnt", "ns/uts", "ns/user", "root")
"""Links in /proc/PID that determine what a process sees of the machine, such as its files and host name."""
MAX_LINKS = 40
"""Largest number of symbolic links in a path, the same as in the kernel."""
PER_PROCESS = ("/proc/", "/dev/")
"""Folders whose content differs between processes."""


class LeftToClient(Exception):
    """The submitter cannot handle this request, so the client in Python must."""


class CallingShell:
    """The arguments, environment and folder of a calling shell.

    The environment includes umask and niceness, as Slurm's commands send them.
    """

    def __init__(self, request: ShellRequest, paths: Paths) -> None:
        """Read everything about the shell that sent this request. Raises LeftToClient."""
        try:
            self._process = os.open(f"/proc/{request.pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise LeftToClient("the shell has ended") from error
        try:
            self._read_all(request, paths)
        except OSError as error:
            self.close()
            raise LeftToClient(str(error)) from error
        except LeftToClient:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._process)

    def read(self, path: str, size: int) -> bytes:
        """Return at most `size` bytes of a file.

        Raises OSError as the caller would get it, and LeftToClient if it is no regular file.
        """
        if path == LIMITS_FILE:
            return self._block("limits")[:size]
        _check_name(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise LeftToClient(f"{path} is not a regular file")
            return file.read(size)

    def _read_all(self, request: ShellRequest, paths: Paths) -> None:
        held = os.stat(f"fd/{ANSWER_FD}", dir_fd=self._process)
        if (held.st_dev, held.st_ino) != request.slot.identity:
            raise LeftToClient("another process waits for the answer")
        status = self._block("status").splitlines()
        if _rights(status) != _own_rights() or self._view() != _own_view():
            raise LeftToClient("its rights or namespaces differ from ours")
        self.words = _texts(self._block("cmdline"))[-request.words :] if request.words else []
        self.env = self._variables(status)
        if _home_of(self.env) != paths.home or self.env.get("TZ", "") != os.environ.get("TZ", ""):
            raise LeftToClient("its home or time zone differs from ours")
        self.folder = self._folder()
        if len(self.words) != request.words or not all(map(is_text, (self.folder, *self.words))):
            raise LeftToClient("its arguments are not text")

    def _variables(self, status: list[bytes]) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in _texts(self._block("environ")):
            name, equals, value = entry.partition("=")
            if name and equals and is_text(entry):
                found.setdefault(name, value)  # of several values, Python uses the first, too
        if UMASK not in found:
            mask = next((line.split()[1] for line in status if line.startswith(b"Umask:")), b"")
            if not mask:
                raise LeftToClient("its umask is unknown")
            found[UMASK] = f"{int(mask, 8):04o}"
        found[NICENESS] = self._niceness()
        return found

    def _niceness(self) -> str:
        """Return the 19th field of /proc/PID/stat. The second field may contain blanks and parentheses."""
        return self._block("stat").rpartition(b")")[2].split()[16].decode()

    def _folder(self) -> str:
        here = os.readlink("cwd", dir_fd=self._process)
        if not os.path.samestat(os.stat(here), os.stat("cwd", dir_fd=self._process)):
            raise LeftToClient("its folder is not visible here")
        return by_name(here, self.env)

    def _view(self) -> tuple[str, ...]:
        return tuple(os.readlink(name, dir_fd=self._process) for name in VIEW)

    def _block(self, name: str) -> bytes:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._process)
        data = b""
        try:
            while piece := os.read(descriptor, READ_BYTES):
                data += piece
                if len(data) > MAX_BLOCK_BYTES:
                    raise LeftToClient(f"its {name} is too long")
        finally:
            os.close(descriptor)
        return data


def _texts(block: bytes) -> list[str]:
    """Split a block of texts that each end with a zero byte."""
    return [os.fsdecode(each) for each in block.split(b"\0")[:-1]]


def _rights(status: list[bytes]) -> list[bytes]:
    return [line for line in status if line.startswith(SAME_STATUS)]


@lru_cache(maxsize=1)
def _own_rights() -> list[bytes]:
    with open("/proc/self/status", "rb") as file:
        return _rights(file.read().splitlines())


@lru_cache(maxsize=1)
def _own_view() -> tuple[str, ...]:
    return tuple(os.readlink(f"/proc/self/{name}") for name in VIEW)


def _home_of(env: Mapping[str, str]) -> str:
    """Return the caller's home folder of warpdeck.

    Raises LeftToClient if it depends on more than the environment.
    """
    if not env.get("HOME") or env.get("WARPDECK_HOME", "/")[:1] not in ("", "/"):
        raise LeftToClient("its home is relative")
    try:
        return default_paths(env, engine=OWN).home
    except UserError as error:
        raise LeftToClient(error.message) from error


def _check_name(path: str) -> None:
    """Raise LeftToClient if the path means another file in this process than in the caller.

    Examples are /dev/stdin, /dev/fd/63, and links to such paths.
    """
    for _ in range(MAX_LINKS):
        folder, name = os.path.split(os.path.join("/", path))
        path = os.path.join(os.path.realpath(folder), name)
        if path.startswith(PER_PROCESS):
            raise LeftToClient(f"{path} belongs to one process")
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:  # the path is no link, or does not exist
            return
    raise LeftToClient(f"{path} has more than {MAX_LINKS} symbolic links")
