"""Open descriptors that outlive the agent: the supervisor keeps copies by name and returns them on request.

A rank of an MPI program keeps its connection to the agent from init to finalize, possibly for weeks. If the
agent's end were lost when the agent is killed or replaced, the program would wait in MPI_Finalize forever.
Each connection carries one message, on a socket that preserves message boundaries: {"keep": NAME} with a
descriptor; {"take": PREFIX}, answered by a message with a name and a descriptor for each match; or {"drop":
PREFIX}.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Dict, Iterator, List

FILE = "lines.sock"
MAX_KEPT = 512
"""The most kept descriptors. A process may have a thousand open, and the supervisor needs some for
launches.
"""
MAX_BYTES = 4096
TIMEOUT_S = 5.0
"""Time limit in seconds. The supervisor does nothing that takes long."""
_KIND = socket.SOCK_SEQPACKET


class DescriptorStore:
    """The supervisor's part: it stores the descriptors and serves requests."""

    def __init__(self, folder: str) -> None:
        self._kept: Dict[str, int] = {}
        self.listener = socket.socket(socket.AF_UNIX, _KIND)
        before = os.umask(0o077)
        try:
            with _address(folder) as address:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(address)
                self.listener.bind(address)
        finally:
            os.umask(before)
        self.listener.listen(64)

    def serve(self) -> None:
        """Handle one connection. Its message is present or arrives at once."""
        link, _ = self.listener.accept()
        with link, contextlib.suppress(OSError, ValueError):
            link.settimeout(TIMEOUT_S)
            data, given, _, _ = socket.recv_fds(link, MAX_BYTES, 1)
            try:
                self._act(link, json.loads(data), given[0] if given else -1)
            finally:
                for descriptor in given:
                    os.close(descriptor)

    def _act(self, link: socket.socket, request: Dict[str, str], descriptor: int) -> None:
        if "keep" in request and descriptor >= 0 and len(self._kept) < MAX_KEPT:
            self._kept[request["keep"]] = os.dup(descriptor)
            link.send(b"kept")
        for name in self._below(request.get("take")):
            socket.send_fds(link, [name.encode()], [self._kept[name]])
        for name in self._below(request.get("drop")):
            os.close(self._kept.pop(name))

    def _below(self, prefix: object) -> List[str]:
        return [name for name in self._kept if isinstance(prefix, str) and name.startswith(prefix)]


class DescriptorClient:
    """The agent's part: it sends requests to the supervisor.

    All methods block as long as the supervisor takes. Without a supervisor nothing is kept.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def keep(self, name: str, descriptor: int) -> bool:
        """Store a copy of the descriptor. Returns whether it was stored."""
        try:
            with self._ask({"keep": name}, descriptor) as link:
                return link.recv(MAX_BYTES) == b"kept"
        except OSError:
            return False

    def take(self, prefix: str) -> Dict[str, socket.socket]:
        """Return copies of the stored sockets with names that begin with `prefix`."""
        found: Dict[str, socket.socket] = {}
        with contextlib.suppress(OSError), self._ask({"take": prefix}) as link:
            while True:
                name, given, _, _ = socket.recv_fds(link, MAX_BYTES, 1)
                if not given:
                    break
                found[name.decode()] = socket.socket(fileno=given[0])
        return found

    def drop(self, prefix: str) -> None:
        with contextlib.suppress(OSError), self._ask({"drop": prefix}) as link:
            link.recv(MAX_BYTES)

    def _ask(self, request: Dict[str, str], descriptor: int = -1) -> socket.socket:
        link = socket.socket(socket.AF_UNIX, _KIND)
        try:
            link.settimeout(TIMEOUT_S)
            with _address(self._folder) as address:
                link.connect(address)
            data = json.dumps(request).encode()
            if descriptor >= 0:
                socket.send_fds(link, [data], [descriptor])
            else:
                link.send(data)
        except BaseException:
            link.close()
            raise
        return link


@contextlib.contextmanager
def _address(folder: str) -> Iterator[str]:
    """Yield an address of the socket that fits the kernel's length limit."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{FILE}"
    finally:
        os.close(descriptor)
