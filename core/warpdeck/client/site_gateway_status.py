"""Asks a site gateway to Slurm for its state, for `warpdeck status`."""

from __future__ import annotations

import json
import pwd
import socket
import struct
from typing import NamedTuple

ANSWER_S = 5.0
MAX_ANSWER_BYTES = 16 * 1024
QUESTION = b'{"question":"","form":""}\n'
"""No question has this name, so the reply has only the state."""


class SiteGatewayStatus(NamedTuple):
    """The state of a site gateway."""

    owner: str
    cluster: str
    requests_a_minute: float


def ask_status(path: str) -> SiteGatewayStatus | None:
    """Return the state of the site gateway at this socket, or None if none answers."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(ANSWER_S)
            client.connect(path)
            _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            client.sendall(QUESTION)
            with client.makefile("rb") as answer:
                found = json.loads(answer.readline(MAX_ANSWER_BYTES))
        return SiteGatewayStatus(
            _name_of(uid), str(found.get("cluster", "")), float(found.get("requests_a_minute", 0))
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
