"""Which host keys are trusted: those in the user's known_hosts files, and in warpdeck's own those the user confirmed.

An unknown key is shown with its fingerprint and refused; only when the user has confirmed that very fingerprint is it
written to warpdeck's file. A key that differs from a known one is always refused.
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
    """A key that a host has shown, under the name by which known_hosts files know the host."""

    host: str
    address: str
    port: int
    key: asyncssh.SSHKey

    def name(self) -> str:
        """As known_hosts writes it."""
        return self.host if self.port == DEFAULT_PORT else f"[{self.host}]:{self.port}"


class Stamp(NamedTuple):
    """A file as it was when it was read."""

    path: str
    inode: int
    size_bytes: int
    mtime_ns: int


@functools.lru_cache(maxsize=4)
def _read(files: tuple[Stamp, ...]) -> asyncssh.SSHKnownHosts:
    """Each line holds a key to be decoded: with a thousand hosts that took far longer than the handshake that wanted one."""
    return asyncssh.read_known_hosts([each.path for each in files])


class KnownHosts:
    """The files that are asked, and the one of them that is ours to write."""

    def __init__(self, files: Sequence[str], *, own: str) -> None:
        self._files = (*files, own)
        self._own = own

    def files(self) -> list[str]:
        """Those that are there."""
        return [path for path in self._files if os.path.exists(path)]

    def read(self) -> asyncssh.SSHKnownHosts:
        """What they all say. Raises OSError or ValueError."""
        stamps = []
        for path in self.files():
            found = os.stat(path)
            stamps.append(Stamp(path, found.st_ino, found.st_size, found.st_mtime_ns))
        return _read(tuple(stamps))

    def other_keys(self, shown: HostKey) -> tuple[str, list[asyncssh.SSHKey]]:
        """The keys the host is known by, and the file they are in; ("", []) for a host not seen before."""
        port = None if shown.port == DEFAULT_PORT else shown.port
        for path in self.files():
            keys = list(asyncssh.read_known_hosts(path).match(shown.host, shown.address, port)[0])
            if keys:
                return path, keys
        return "", []

    def keep(self, shown: HostKey) -> None:
        """Writes a key that the user confirmed."""
        line = f"{shown.name()} {shown.key.export_public_key('openssh').decode().strip()}\n"
        descriptor = os.open(self._own, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


class Witness(asyncssh.SSHClient):
    """Sees the key that a host shows when no file vouches for it; trusts it only if it is the confirmed one."""

    def __init__(self, known: KnownHosts, confirmed: str) -> None:
        self._known = known
        self._confirmed = confirmed
        self._shown: HostKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """asyncssh asks this for a key that is in none of the files."""
        self._shown = HostKey(host=host, address=addr, port=port or DEFAULT_PORT, key=key)
        if self._known.other_keys(self._shown)[1] or key.get_fingerprint() != self._confirmed:
            return False
        self._known.keep(self._shown)
        return True

    def refusal(self, host: str) -> UserError | None:
        """Why the key was not trusted, and what to do; None if the host has shown none."""
        shown = self._shown
        if shown is None:
            return None
        fingerprint = shown.key.get_fingerprint()
        path, others = self._known.other_keys(shown)
        if others:
            old = ", ".join(key.get_fingerprint() for key in others)
            return UserError(
                f"the host key of {host} has CHANGED: it shows {fingerprint}, known is {old}",
                "somebody may be listening in; if the host was reinstalled, remove the old key: "
                f"ssh-keygen -R '{shown.name()}' -f {path}",
                code="host_key_changed",
                details={"fingerprint": fingerprint, "known": old},
            )
        return UserError(
            f"the host key of {host} is not known: {fingerprint}",
            "compare it with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), then confirm it",
            code="host_key",
            details={"fingerprint": fingerprint, "key_type": shown.key.get_algorithm(), "host": host},
        )
