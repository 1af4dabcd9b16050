"""Requests to slurmrestd over HTTP: to which addresses the token may be sent, and the limits of an answer.

HTTP/1.0 is spoken, because an answer then has no parts of its own (chunks), and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

REQUEST_S = 10.0
"""Maximum seconds from the connection to the end of an answer."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Maximum size of an answer. A job takes about 10 KB, so a longer queue is read with squeue."""
MAX_HEAD_BYTES = 64 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9_.=-]{1,16384}")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,15}) *\r\n", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9.:_-]{1,255}")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_UNIX = "unix:"


class RestLost(Exception):
    """slurmrestd does not give a complete answer. The text says why; it never contains the token."""


class HttpReply(NamedTuple):
    """The status and the body of an answer."""

    status: int
    body: bytes


@dataclass(frozen=True)
class Address:
    """A server that may have the token. A Unix socket has a path only."""

    unix: str = ""
    host: str = ""
    port: int = 0
    is_tls: bool = False
    prefix: str = ""
    """The beginning of all paths, if slurmrestd is behind another server."""


def read_address(url: str) -> Address:
    """Return the address that the setting `rest_url` names. Raises RestLost if the token may not be sent there."""
    if url.startswith(_UNIX):
        path = url.removeprefix(_UNIX)
        if not path.startswith("/"):
            raise RestLost("rest_url names no absolute path of a Unix socket; write unix:/path")
        return Address(unix=path)
    try:
        parts, port = urlsplit(url), urlsplit(url).port
    except ValueError as error:
        raise RestLost("rest_url is not an address; write https://host:6820 or unix:/path") from error
    host, prefix = parts.hostname or "", parts.path.rstrip("/")
    if not _is_plain(parts) or not _NAME.fullmatch(host) or not _PATH.fullmatch(prefix):
        raise RestLost("rest_url is not an address; write https://host:6820 or unix:/path")
    if parts.scheme == "http" and not _is_this_machine(host):
        raise RestLost(
            "rest_url is plain http to another machine, which would show the token to the network; "
            "use https or a Unix socket"
        )
    is_tls = parts.scheme == "https"
    return Address(host=host, port=port or (443 if is_tls else 80), is_tls=is_tls, prefix=prefix)


def _is_plain(parts: SplitResult) -> bool:
    """Return whether an address has a known scheme, and neither a password nor a query."""
    return parts.scheme in ("http", "https") and "@" not in parts.netloc and not parts.query + parts.fragment


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: str) -> None:
    """Raise RestLost if there is no token, or one that could not be a line of a request."""
    if not token:
        raise RestLost(
            "the variable SLURM_JWT was not set when the gateway started; set it with `scontrol token`"
        )
    if not _TOKEN.fullmatch(token):
        raise RestLost("the variable SLURM_JWT contains no token")


async def get(address: Address, path: str, token: str) -> HttpReply:
    """Return the answer to a request. Raises RestLost."""
    check_token(token)
    head = (
        f"GET {address.prefix}{path} HTTP/1.0\r\nHost: {_host_line(address)}\r\nX-SLURM-USER-TOKEN: {token}\r\n"
        "Accept: application/json\r\nConnection: close\r\n\r\n"
    )
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(REQUEST_S):
            reader, writer = await _connect(address)
            writer.write(head.encode())
            return await _read_reply(reader)
    except TimeoutError as error:
        raise RestLost(f"it did not answer within {REQUEST_S:.0f} s") from error
    except OSError as error:  # also the errors of TLS
        raise RestLost(f"it does not answer: {error.strerror or error}") from error
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise RestLost("its answer is cut off") from error
    finally:
        if writer is not None:
            with suppress(OSError):
                writer.transport.abort()


def _host_line(address: Address) -> str:
    if address.unix:
        return "localhost"
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.unix:
        return await asyncio.open_unix_connection(address.unix, limit=MAX_HEAD_BYTES)
    return await asyncio.open_connection(
        address.host, address.port, ssl=True if address.is_tls else None, limit=MAX_HEAD_BYTES
    )


async def _read_reply(reader: asyncio.StreamReader) -> HttpReply:
    head = await reader.readuntil(b"\r\n\r\n")
    status, length = _STATUS.match(head), _LENGTH.search(head)
    if status is None or length is None:
        raise RestLost("its answer is not of slurmrestd's form")
    size = int(length[1])
    if size > MAX_BODY_BYTES:
        raise RestLost(f"its answer is longer than {MAX_BODY_BYTES >> 20} MiB")
    return HttpReply(int(status[1]), await reader.readexactly(size))
