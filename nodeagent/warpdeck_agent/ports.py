"""TCP ports for a job's own servers: MASTER_PORT of torch.distributed. Free now on all addresses, and told to one launch only.

They lie below the range from which the kernel takes the ports of outgoing connections, so that none of those is in the way later.
"""

from __future__ import annotations

import random
import socket
from typing import Dict, Set, Tuple

from .procfs import text

FIRST_PORT = 20_000
LAST_PORT = 29_999
TRIES = 200
"""Ports that are looked at before there is none."""


class Ports:
    """The ports that launches on this node were told."""

    def __init__(self) -> None:
        self._held: Dict[Tuple[int, int], Set[int]] = {}
        self._random = random.Random()

    def reserve(self, launch: Tuple[int, int]) -> int:
        """A port for the launch (job id, restarts), 0 if none is found."""
        taken = {port for ports in self._held.values() for port in ports}
        low, high = _range()
        for _ in range(TRIES):
            port = self._random.randint(low, high)
            if port not in taken and _is_free(port):
                self._held.setdefault(launch, set()).add(port)
                return port
        return 0

    def release(self, launch: Tuple[int, int]) -> None:
        """The launch has ended."""
        self._held.pop(launch, None)


def _range() -> Tuple[int, int]:
    words = text("/proc/sys/net/ipv4/ip_local_port_range").split()
    first_outgoing = int(words[0]) if words and words[0].isdecimal() else LAST_PORT + 1
    if first_outgoing > FIRST_PORT + TRIES:
        return FIRST_PORT, min(LAST_PORT, first_outgoing - 1)
    return FIRST_PORT, LAST_PORT


def _is_free(port: int) -> bool:
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # no such protocol here
        try:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
        except OSError:
            return False
        finally:
            probe.close()
    return True
