"""TCP ports for a job's own servers, such as MASTER_PORT of torch.distributed.

A port is free on all addresses when it is chosen, and given to one launch only. The ports are below the range
from which the kernel takes ports of outgoing connections, so that none of those can occupy them later.
"""

from __future__ import annotations

import errno
import random
import socket
from typing import Dict, Mapping, Set, Tuple

from warpdeck_agent.linux.procfs import text
from warpdeck_agent.wire.steps import FIRST_GANG_PORT, MASTER_VARIABLE

FIRST_PORT = 20_000
LAST_PORT = FIRST_GANG_PORT - 1
TRIES = 200
"""Number of ports that are tried before giving up."""


class Ports:
    """The ports that were given to launches on this node."""

    def __init__(self) -> None:
        self._held: Dict[Tuple[int, int], Set[int]] = {}
        self._random = random.Random()
        self._range = _range()

    def reserve(self, launch: Tuple[int, int]) -> int:
        """Return a port for the launch (job id, restarts), 0 if none is found."""
        taken = {port for ports in self._held.values() for port in ports}
        low, high = self._range
        for _ in range(TRIES):
            port = self._random.randint(low, high)
            if port not in taken and _is_free(port):
                self._held.setdefault(launch, set()).add(port)
                return port
        return 0

    def with_master(self, env: Mapping[str, str], launch: Tuple[int, int], *, tasks: bool) -> Dict[str, str]:
        """Return the environment with MASTER_PORT and the variables derived from MASTER_ADDR and MASTER_PORT.

        A port is reserved if the controller left the choice to the node. With `tasks`, the variables of other
        launchers are added, which the tasks of a step get.
        """
        made = dict(env)
        address, port = made.get("MASTER_ADDR", ""), made.get("MASTER_PORT", "")
        if MASTER_VARIABLE in made:
            port = port or str(self.reserve(launch))
            made.update({"MASTER_PORT": port, MASTER_VARIABLE: f"{address}:{port}"})
        if tasks and address and port:
            host = f"[{address}]" if ":" in address else address
            made.setdefault("JAX_COORDINATOR_ADDRESS", f"{host}:{port}")
            if "PET_NNODES" in made:
                made.update({"PET_MASTER_ADDR": address, "PET_MASTER_PORT": port})
        return made

    def release(self, launch: Tuple[int, int]) -> None:
        """Free the ports of an ended launch."""
        self._held.pop(launch, None)


def _range() -> Tuple[int, int]:
    fields = text("/proc/sys/net/ipv4/ip_local_port_range").split()
    first_outgoing = int(fields[0]) if fields and fields[0].isdecimal() else LAST_PORT + 1
    if first_outgoing > FIRST_PORT + TRIES:
        return FIRST_PORT, min(LAST_PORT, first_outgoing - 1)
    return FIRST_PORT, LAST_PORT


def _is_free(port: int) -> bool:
    """Return whether no process uses the port in either protocol.

    With both protocols, one dual-stack socket tests both.
    """
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # this protocol is not available
        try:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            probe.bind((address, port))
            return True
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # that error means that IPv6 is switched off
                return False
        finally:
            probe.close()
    return True
