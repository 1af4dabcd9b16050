"""SSH connections: the user's own configuration, known hosts and keys, and no host key accepted unseen.

An unknown host key is shown with its fingerprint and refused; only when the user has confirmed that very fingerprint is it
written to warpdeck's known_hosts. A key that differs from a known one is always refused.
"""

from __future__ import annotations

import os
import re
import socket
from typing import Any

import asyncssh
import msgspec

from warpdeck.errors import UserError
from warpdeck.paths import Paths

CONNECT_S = 15.0
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 3
"""A dead link is noticed after about 20 s."""

_TARGET = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?"
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """[USER@]HOST[:PORT], as written."""

    host: str
    user: str = ""
    port: int | None = None

    def known_name(self, port: int) -> str:
        """As known_hosts writes it."""
        return self.host if port == 22 else f"[{self.host}]:{port}"


def parse_target(text: str) -> Target:
    """Raises UserError."""
    match = _TARGET.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or match["host"].startswith("-") or (port is not None and not 0 < port < 65536):
        raise UserError(
            f"{text!r} is no host", "write [USER@]HOST[:PORT]; an IPv6 address goes in [brackets]"
        )
    return Target(host=match["host"].strip("[]"), user=match["user"] or "", port=port)


async def connect(text: str, paths: Paths, *, accept_host_key: str = "") -> asyncssh.SSHClientConnection:
    """An open connection. Raises UserError, with code "host_key" where the user has to confirm a key first."""
    target = parse_target(text)
    known = _known_hosts(paths)
    options: dict[str, Any] = {"known_hosts": known, **_options(target)}
    try:
        return await asyncssh.connect(target.host, **options)
    except asyncssh.HostKeyNotVerifiable as error:
        await _confirm_host_key(target, paths, accept_host_key, error)
    except (OSError, asyncssh.Error) as error:
        raise explain(text, error) from error
    options["known_hosts"] = _known_hosts(paths)
    try:
        return await asyncssh.connect(target.host, **options)
    except (OSError, asyncssh.Error) as error:
        raise explain(text, error) from error


def explain(target: str, error: Exception) -> UserError:
    """One sentence for each way in which a connection fails."""
    match error:
        case asyncssh.PermissionDenied():
            return UserError(
                f"{target} refuses our key",
                f"check that `ssh {target}` works without a password, then try again",
            )
        case asyncssh.HostKeyNotVerifiable():
            return UserError(f"the host key of {target} cannot be verified", "see known_hosts")
        case TimeoutError():
            return UserError(
                f"{target} does not answer within {CONNECT_S:.0f} s", "is it up, and is the port right?"
            )
        case socket.gaierror():
            return UserError(f"there is no host {target}", "check the name, or its entry in ~/.ssh/config")
        case ConnectionRefusedError():
            return UserError(f"{target} refuses the connection", "is sshd running there, on that port?")
        case OSError():
            return UserError(
                f"cannot reach {target}: {os.strerror(error.errno or 0)}", "is the network right?"
            )
    reason = str(error) or type(error).__name__
    return UserError(f"no SSH connection to {target}: {reason}", f"see what `ssh -v {target}` says")


def _options(target: Target) -> dict[str, Any]:
    options: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "login_timeout": CONNECT_S,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVE_COUNT,
    }
    if target.user:
        options["username"] = target.user
    if target.port:
        options["port"] = target.port
    return options


def _known_hosts(paths: Paths) -> list[str]:
    candidates = [os.path.expanduser("~/.ssh/known_hosts"), "/etc/ssh/ssh_known_hosts", paths.known_hosts]
    return [path for path in candidates if os.path.exists(path)]


async def _confirm_host_key(
    target: Target, paths: Paths, accepted: str, cause: asyncssh.HostKeyNotVerifiable
) -> None:
    """Keeps the key if its fingerprint is the one the user confirmed; else says what to confirm."""
    options = {key: value for key, value in _options(target).items() if key in ("port",)}
    try:
        key = await asyncssh.get_server_host_key(target.host, **options)
    except (OSError, asyncssh.Error) as error:
        raise explain(target.host, error) from error
    if key is None:
        raise explain(target.host, cause)
    name = target.known_name(target.port or 22)
    _refuse_changed(name, paths)
    fingerprint = key.get_fingerprint()
    if accepted != fingerprint:
        raise UserError(
            f"the host key of {target.host} is not known: {fingerprint}",
            "compare it with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), then confirm it",
            code="host_key",
            details={"fingerprint": fingerprint, "key_type": key.get_algorithm(), "host": target.host},
        )
    line = f"{name} {key.export_public_key('openssh').decode().strip()}\n"
    descriptor = os.open(paths.known_hosts, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _refuse_changed(name: str, paths: Paths) -> None:
    for path in _known_hosts(paths):
        host, _, port = name.strip("[").partition("]:")
        found = asyncssh.read_known_hosts(path).match(host, "", int(port) if port else 22)
        if found[0] or found[2]:
            raise UserError(
                f"the host key of {name} has CHANGED: it differs from the one in {path}",
                f"if the host was reinstalled, remove the old one: ssh-keygen -R '{name}' -f {path}",
                code="host_key_changed",
            )
