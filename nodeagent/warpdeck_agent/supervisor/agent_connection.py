"""The supervisor's connection to the agent, which carries lines of JSON in both directions.

A newer connection replaces an older one. The older one is first read to its end, because orders that an agent
sent before it was killed are still carried out.
"""

from __future__ import annotations

import math
import socket
import time
from typing import Any, Callable, Dict, Optional

from warpdeck_agent.wire.jsontext import dumps, loads

from .descriptor_poll import DescriptorPoll
from .starter import LaunchOrder

READ_BYTES = 64 * 1024
"""Size of reads from the agent. An order has some kilobytes. For larger buffers, the C library would allocate
memory from the kernel and return it every time.
"""
MAX_UNSENT_BYTES = 4 * 1024 * 1024
"""An agent with this many unread bytes is disconnected. The next agent gets all information from the
table.
"""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line from the agent. An order holds an environment and arguments. The kernel limits their size,
except for the escapes of JSON.
"""


class AgentConnection:
    """The connection of the present agent, if there is one. `carry_out` gets each order of the agent."""

    def __init__(self, poll: DescriptorPoll, carry_out: Callable[[LaunchOrder], None]) -> None:
        self._poll = poll
        self._carry_out = carry_out
        self._link: Optional[socket.socket] = None
        self._received = bytearray()
        self._unsent = bytearray()
        self._send_at = math.inf
        """Time at which unsent data is sent, on the monotonic clock."""
        self._waits_to_send = False
        """Whether the agent must read before more can be sent."""

    @property
    def is_open(self) -> bool:
        return self._link is not None

    @property
    def next_send_at(self) -> float:
        """The time at which `send_due` must be called, on the monotonic clock; infinity for none."""
        return math.inf if self._waits_to_send else self._send_at

    def replace(self, listener: socket.socket) -> None:
        """Accept a new agent. Orders of the previous agent are carried out first."""
        while self._read():
            continue
        self._drop()
        self._link, _ = listener.accept()
        self._link.setblocking(False)
        self._poll.watch(self._link.fileno(), self._read)

    def send(self, message: Dict[str, Any], *, within_s: float = 0.0) -> None:
        """Send a message within `within_s` seconds. The order of messages is kept."""
        if self._link is not None:
            self._unsent += dumps(message).encode("utf-8", "surrogatepass") + b"\n"
            self._send_at = min(self._send_at, time.monotonic() + within_s)
            if len(self._unsent) > MAX_UNSENT_BYTES:
                self._drop()

    def send_due(self, now: float) -> None:
        """Send as much as the agent accepts, if it is time to send or if the agent can receive again."""
        if self._link is None or not self._unsent or self._send_at > now:
            return
        try:
            del self._unsent[: self._link.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop()
            return
        if not self._unsent:
            self._send_at = math.inf
        if self._waits_to_send != bool(self._unsent):
            self._waits_to_send = bool(self._unsent)
            self._poll.wake_when_writable(self._link, self._waits_to_send)

    def _read(self) -> bool:
        """Read and carry out orders. Returns False if there is nothing to read."""
        if self._link is None:
            return False
        try:
            data = self._link.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._received += data
        *lines, rest = self._received.split(b"\n") if b"\n" in data else [self._received]
        self._received = bytearray(rest)
        for line in lines:
            self._carry_out(_parse_order(loads(line.decode("utf-8", "surrogatepass"))))
        if not data or len(rest) > MAX_LINE_BYTES:
            self._drop()
        return bool(data)

    def _drop(self) -> None:
        if self._link is not None:
            self._poll.close(self._link)
        self._link = None
        self._unsent.clear()
        self._send_at = math.inf
        self._waits_to_send = False
        self._received.clear()


def _parse_order(values: Dict[str, Any]) -> LaunchOrder:
    """Return the order that an agent sent.

    The agent may be of a later build, because a supervisor runs as long as its jobs. Unknown fields are
    ignored.
    """
    known = {name: value for name, value in values.items() if name in LaunchOrder._fields}
    account = known.pop("account", None)
    return LaunchOrder(account=tuple(account) if account else None, **known)
