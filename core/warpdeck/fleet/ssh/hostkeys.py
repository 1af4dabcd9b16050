"""Manage trusted host keys.

The trusted keys are the keys in the user's known_hosts files, and the keys in warpdeck's own file, which the
user has confirmed. An unknown key is refused, and the error shows its fingerprint. After the user has
confirmed that fingerprint, the key is written to warpdeck's file. A key that differs from a known key is
always refused.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import NamedTuple

import asyncssh
import msgspec

from warpdeck.base.errors import UserError

DEFAULT_PORT = 22


class HostKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that a host has presented, with the names under which known_hosts files list the host."""

    host: str
    address: str
    port: int
    key: asyncssh.SSHKey

    def name(self) -> str:
        """Return the host's name in the format of known_hosts."""
        return self.host if self.port == DEFAULT_PORT else f"[{self.host}]:{self.port}"


class FileVersion(NamedTuple):
    """Identity of a file's content at the time when it was read."""

    path: str
    inode: int
    size_bytes: int
    mtime_ns: int


@functools.lru_cache(maxsize=4)
def _read(files: tuple[FileVersion, ...]) -> asyncssh.SSHKnownHosts:
    """Read the known hosts. The result is cached, because each line has a key that must be decoded.

    With a thousand hosts, reading them takes far longer than the handshake that needs one of the keys.
    """
    return asyncssh.read_known_hosts([each.path for each in files])


class KnownHosts:
    """The known_hosts files that are read, and the file among them to which warpdeck writes."""

    def __init__(self, files: Sequence[str], *, own: str) -> None:
        self._files = (*files, own)
        self._own = own

    def files(self) -> list[str]:
        """Return the files that exist."""
        return [path for path in self._files if os.path.exists(path)]

    def read(self) -> asyncssh.SSHKnownHosts:
        """Return the content of all files. Raises OSError or ValueError."""
        versions = []
        for path in self.files():
            found = os.stat(path)
            versions.append(FileVersion(path, found.st_ino, found.st_size, found.st_mtime_ns))
        return _read(tuple(versions))

    def other_keys(self, shown: HostKey) -> tuple[str, list[asyncssh.SSHKey]]:
        """Return the known_hosts file that lists the host, and the host's keys in that file.

        The result is ("", []) if the host is unknown.
        """
        port = None if shown.port == DEFAULT_PORT else shown.port
        for path in self.files():
            keys = list(asyncssh.read_known_hosts(path).match(shown.host, shown.address, port)[0])
            if keys:
                return path, keys
        return "", []

    def add(self, shown: HostKey) -> None:
        """Write a key that the user confirmed to our own file."""
        line = f"{shown.name()} {shown.key.export_public_key('openssh').decode().strip()}\n"
        descriptor = os.open(self._own, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


class HostKeyVerifier(asyncssh.SSHClient):
    """SSH client that records a host key that is in no file.

    It trusts the key only if the user has confirmed it.
    """

    def __init__(self, known: KnownHosts, confirmed: str) -> None:
        self._known = known
        self._confirmed = confirmed
        self._shown: HostKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Return whether a key that is in none of the files is trusted. asyncssh calls this."""
        self._shown = HostKey(host=host, address=addr, port=port or DEFAULT_PORT, key=key)
        if self._known.other_keys(self._shown)[1] or key.get_fingerprint() != self._confirmed:
            return False
        self._known.add(self._shown)
        return True

    def refusal(self, host: str) -> UserError | None:
        """Return the error for an untrusted key, with advice for the user.

        Returns None if the host presented no key.
        """
        shown = self._shown
        if shown is None:
            return None
        fingerprint = shown.key.get_fingerprint()
        path, others = self._known.other_keys(shown)
        if others:
            old = ", ".join(key.get_fingerprint() for key in others)
            return UserError(
                f"the host key of {host} has CHANGED: it is now {fingerprint}, the known key is {old}",
                "this may be an attack; if the host was reinstalled, remove the old key with "
                f"ssh-keygen -R '{shown.name()}' -f {path}",
                code="host_key_changed",
                details={"fingerprint": fingerprint, "known": old},
            )
        return UserError(
            f"unknown host key of {host}: {fingerprint}",
            "compare it with the key on the host (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), then accept it",
            code="host_key",
            details={"fingerprint": fingerprint, "key_type": shown.key.get_algorithm(), "host": host},
        )
