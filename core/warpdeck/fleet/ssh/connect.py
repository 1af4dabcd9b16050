"""SSH connections with the user's own ~/.ssh/config, known hosts, keys and jump hosts.

No host key is accepted without the user's confirmation. Each hop is connected in the same way, so a jump
host's key is checked and confirmed like the target's. See hostkeys for unknown and changed host keys.
"""

from __future__ import annotations

import os
import re
import socket
from typing import Any

import asyncssh
import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths

from .hostkeys import HostKeyVerifier, KnownHosts

CONNECT_S = 15.0
"""Seconds that a host may take to answer, unless ~/.ssh/config sets ConnectTimeout."""
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 3
"""A dead link is detected after about 20 s."""
SSH_KEEPALIVE_S = 30
"""Interval in seconds of keepalive messages over SSH. A host with a running kernel but a hanging sshd is
detected after about a minute and a half.
"""
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
"""Names of the private keys in ~/.ssh that are used without any setting."""
_IDENTITY = re.compile(r"^\s*IdentityFile[\s=]+\"?([^\"\n]+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)
USER_KNOWN_HOSTS, SITE_KNOWN_HOSTS = "~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"
MAX_HOPS = 8
"""Maximum number of jump hosts in a row. The limit stops a ProxyJump that refers to itself."""

_TARGET = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?"
)


class SshTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target [USER@]HOST[:PORT], as written."""

    text: str
    host: str
    user: str = ""
    port: int | None = None

    def options(self) -> dict[str, Any]:
        """Return the SSH options for the parts of the target that were written.

        These options override ~/.ssh/config, which determines all other options.
        """
        found: dict[str, Any] = {"host": self.host}
        if self.user:
            found["username"] = self.user
        if self.port:
            found["port"] = self.port
        return found


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of ~/.ssh/config for a host."""

    jumps: tuple[str, ...]
    connect_s: float
    known_hosts: tuple[str, ...]
    ciphers: tuple[str, ...]
    """The allowed ciphers, beginning with the cheapest ciphers for the short messages of an agent."""
    keys: tuple[asyncssh.SSHKeyPair, ...] = ()
    """The user's own keys for this host."""


def parse_target(text: str) -> SshTarget:
    """Parse a target. Raises UserError."""
    match = _TARGET.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or match["host"].startswith("-") or (port is not None and not 0 < port < 65536):
        raise UserError(
            f"{text!r} is not a host", "use [USER@]HOST[:PORT], with an IPv6 address in [brackets]"
        )
    return SshTarget(text=text, host=match["host"].strip("[]"), user=match["user"] or "", port=port)


async def connect(text: str, paths: Paths, *, accept_host_key: str = "") -> asyncssh.SSHClientConnection:
    """Return an open connection.

    Raises UserError, with the code "host_key" if the user must confirm a key first.
    """
    return await _dial(parse_target(text), paths, accepted=accept_host_key, hops_left=MAX_HOPS)


async def _dial(
    target: SshTarget, paths: Paths, *, accepted: str, hops_left: int
) -> asyncssh.SSHClientConnection:
    """Connect through the target's jump hosts. The first jump host may itself have jump hosts."""
    if hops_left == 0:
        raise UserError(
            f"more than {MAX_HOPS} jump hosts to {target.text}", "check ProxyJump in ~/.ssh/config"
        )
    route = await _route(target)
    via: asyncssh.SSHClientConnection | None = None
    try:
        for jump in map(parse_target, route.jumps):
            if via is None:
                via = await _dial(jump, paths, accepted=accepted, hops_left=hops_left - 1)
            else:
                via = await _hop(jump, await _route(jump), paths, accepted=accepted, via=via)
        return await _hop(target, route, paths, accepted=accepted, via=via)
    except BaseException:
        if via is not None:
            via.close()
        raise


async def _route(target: SshTarget) -> Route:
    """Return the settings for a host. Raises UserError if the configuration cannot be read."""
    try:
        found = await asyncssh.SSHClientConnectionOptions.construct(config=(), **target.options())
    except (ValueError, OSError) as error:
        raise UserError(
            f"the SSH configuration for {target.text} is invalid: {error}", "check ~/.ssh/config"
        ) from error
    jumps = found.tunnel if isinstance(found.tunnel, str) else ""
    known: object = found.known_hosts
    allowed = [name.decode("ascii") for name in found.encryption_algs]
    return Route(
        jumps=tuple(jump.strip() for jump in jumps.split(",") if jump.strip() not in ("", "none")),
        connect_s=found.connect_timeout or CONNECT_S,
        ciphers=tuple(sorted(allowed, key=lambda name: "-gcm@" not in name)),
        known_hosts=tuple(known)
        if isinstance(known, list) and known
        else (os.path.expanduser(USER_KNOWN_HOSTS),),
        keys=tuple(found.client_keys or ()),
    )


async def _hop(
    target: SshTarget,
    route: Route,
    paths: Paths,
    *,
    accepted: str,
    via: asyncssh.SSHClientConnection | None,
) -> asyncssh.SSHClientConnection:
    """Make one connection, through `via` if given. Closing it then also closes `via`."""
    known = KnownHosts((*route.known_hosts, SITE_KNOWN_HOSTS), own=paths.known_hosts)
    verifier = HostKeyVerifier(known, accepted)
    options = {
        **target.options(),
        "tunnel": via,
        "encryption_algs": route.ciphers,
        "client_factory": lambda: verifier,
        "connect_timeout": route.connect_s,
        "login_timeout": max(route.connect_s, CONNECT_S),
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVE_COUNT,
    }
    if copied := copied_keys(paths):
        options["client_keys"] = [*route.keys, *copied]
    try:
        connection = await asyncssh.connect(**options, known_hosts=known.read())
    except asyncssh.HostKeyNotVerifiable as error:
        raise verifier.refusal(target.host) or explain(target.text, error) from error
    except (OSError, asyncssh.Error, ValueError) as error:
        raise explain(target.text, error, connect_s=route.connect_s) from error
    if via is None:
        _use_tcp_keepalive(connection)
    else:
        connection.set_tunnel(via)
    return connection


def private_keys(paths: Paths) -> list[str]:
    """Return the files with the private keys that connections may use: the user's own, and copied ones."""
    named = [os.path.expanduser(f"~/.ssh/{name}") for name in DEFAULT_KEYS]
    try:
        with open(os.path.expanduser("~/.ssh/config"), encoding="utf-8", errors="replace") as file:
            named += [os.path.expanduser(name) for name in _IDENTITY.findall(file.read())]
    except OSError:
        pass  # There is no configuration.
    if os.path.isdir(paths.keys):
        named += [entry.path for entry in os.scandir(paths.keys)]
    by_name = {os.path.basename(path): path for path in named if os.path.isfile(path)}
    return sorted(by_name.values())


def copied_keys(paths: Paths) -> list[asyncssh.SSHKeyPair]:
    """Return the keys that a standby got from its controller. Keys with a passphrase are left out."""
    found: list[asyncssh.SSHKeyPair] = []
    if os.path.isdir(paths.keys):
        for entry in sorted(os.scandir(paths.keys), key=lambda each: each.name):
            try:
                found += asyncssh.load_keypairs([entry.path])
            except (OSError, ValueError, asyncssh.Error):
                continue
    return found


def _use_tcp_keepalive(connection: asyncssh.SSHClientConnection) -> None:
    """Use TCP keepalive probes instead of frequent SSH ones.

    With hundreds of hosts, SSH keepalive messages every few seconds were most of the cost of an idle link.
    Only the first hop has its own socket; hosts behind it are still probed by SSH.
    """
    own: socket.socket | None = connection.get_extra_info("socket")
    if own is None:
        return
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_COUNT)
    lost_ms = KEEPALIVE_S * (KEEPALIVE_COUNT + 1) * 1000
    # This applies to data that was sent and not acknowledged.
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, lost_ms)
    connection.set_keepalive(SSH_KEEPALIVE_S, KEEPALIVE_COUNT - 1)


def explain(target: str, error: Exception, *, connect_s: float = CONNECT_S) -> UserError:
    """Return the error for a failed connection, with a sentence for each kind of failure."""
    match error:
        case asyncssh.PermissionDenied():
            return UserError(
                f"{target} rejected all SSH keys",
                f"check that `ssh {target}` works without a password, then try again",
            )
        case asyncssh.ChannelOpenError():
            return UserError(
                f"the jump host cannot reach {target}: {error.reason}",
                f"check the output of `ssh -v {target}`",
            )
        case TimeoutError():
            return UserError(
                f"{target} did not answer within {connect_s:.0f} s",
                "check that it is up and that the port is correct",
            )
        case socket.gaierror():
            return UserError(f"unknown host {target}", "check the name, or its entry in ~/.ssh/config")
        case ConnectionRefusedError():
            return UserError(f"{target} refused the connection", "check that sshd runs there on this port")
        case OSError():
            reason = os.strerror(error.errno) if error.errno else str(error)
            return UserError(f"cannot reach {target}: {reason}", "check the network")
    reason = str(error) or type(error).__name__
    return UserError(f"no SSH connection to {target}: {reason}", f"check the output of `ssh -v {target}`")
