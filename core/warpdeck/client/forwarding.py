"""Forwards a port of this machine's loopback to a port of a job for as long as the job runs.

One connection registers the forward with the controller. Each TCP connection has a tunnel with its own
connection and thread, so that none can delay another. If the controller goes away, the forward waits for it
and keeps its port. Only connections of the same user and root are accepted, because all users of a login node
can reach the loopback.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths

from .away import wait_until_back, was_killed
from .blocking_client import GONE, SyncClient
from .tunnel import Relay, TunnelRefused, open_tunnel

MAX_CONNECTIONS = 128
"""Maximum number of concurrent connections of one forward; a browser opens a few dozen.

A further one is refused.
"""
MAX_AWAY_S = 24 * 3600.0
"""Maximum seconds to wait for the controller, so that a forward in the background does not wait forever."""
LOOPBACK = "127.0.0.1"


class Forwarding:
    """One forward. `say` receives remarks for the user as text."""

    def __init__(
        self,
        paths: Paths,
        job: str,
        *,
        port: int,
        local_port: int | None = None,
        node: str = "",
        purpose: str = "",
        page: str = "",
        say: Callable[[str], None],
    ) -> None:
        self._paths = paths
        self._job = job
        self._port = port
        self._node = node
        self._purpose = purpose
        self._page = page
        self._say = say
        self._said = ""
        self._listener = _listen(port, local_port)
        self.local_port: int = self._listener.getsockname()[1]
        self._stream = 0
        self._number = 0
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def register(self, client: SyncClient) -> None:
        """Register the forward with the controller and wait for the job's start. Raises UserError."""
        self._stream = client.begin(
            "forward",
            job=self._job,
            node=self._node,
            port=self._port,
            local_port=self.local_port,
            host=socket.gethostname(),
            purpose=self._purpose,
            page=self._page,
        )
        while True:
            for word, value in client.events(self._stream):
                if word == "ok":
                    self._number = int(value["number"])
                    self._node = str(value["node"])
                    return
                if word == "progress":
                    self._say(value)

    def run(
        self, client: SyncClient, *, keys: int | None = None, on_key: Callable[[], object] | None = None
    ) -> str:
        """Serve until the job ends or the forward is ended. Raises UserError.

        Returns the reason for the end, or "" if the job ended. `keys` is a descriptor; `on_key` is called for
        its input.
        """
        with contextlib.closing(self._listener):
            while True:
                try:
                    return self._serve(client, keys, on_key)
                except UserError as error:
                    if error.code != GONE:
                        raise
                client.close()
                client = wait_until_back(
                    self._registered, self._say, patience_s=MAX_AWAY_S, daemon=self._paths.daemon
                )

    def _serve(self, client: SyncClient, keys: int | None, on_key: Callable[[], object] | None) -> str:
        sources = [self._listener.fileno(), client.fileno(), *([keys] if keys is not None else [])]
        while True:
            for word, value in client.events(self._stream, timeout_s=0):
                if word == "end":
                    return str(value["error"])
            if client.has_buffered(self._stream):
                continue
            ready = select.select(sources, [], [])[0]
            if self._listener.fileno() in ready:
                self._accept()
            if keys in ready and on_key is not None:
                if not os.read(keys or 0, 1024):
                    sources.remove(keys or 0)
                else:
                    on_key()

    def _registered(self) -> SyncClient:
        """Connect to the controller and register the forward again. Raises UserError."""
        client = SyncClient.connect(self._paths, start=was_killed(self._paths))
        try:
            self.register(client)
        except BaseException:
            client.close()
            raise
        return client

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        owner = owner_of(link)
        if owner not in (os.geteuid(), 0):
            self._remark(f"refused a connection from another user (uid {owner})")
            link.close()
        elif not self._slots.acquire(blocking=False):
            self._remark(f"{MAX_CONNECTIONS} connections are open; one more was refused")
            link.close()
        else:
            threading.Thread(target=self._carry, args=(link,), daemon=True).start()

    def _carry(self, link: socket.socket) -> None:
        """Carry one TCP connection, in its own thread."""
        try:
            with link, SyncClient.connect(self._paths, start=False) as client:
                number = open_tunnel(
                    client, self._job, node=self._node, port=self._port, forward=self._number
                )
                self._said = ""
                Relay(client, number, source=link.fileno(), sink=link.fileno()).run()
        except TunnelRefused as error:
            self._remark(f"{self._node}: {error.message}")
        except UserError as error:
            self._remark(error.message)
        finally:
            self._slots.release()

    def _remark(self, words: str) -> None:
        """Show a remark unless it repeats the last one, because browsers keep retrying."""
        if words != self._said:
            self._said = words
            self._say(words)


def _listen(port: int, local_port: int | None) -> socket.socket:
    """Listen on the requested port. Raises UserError.

    If no port is requested, the job's port number is used if it is free, else any free port.
    """
    for wanted in (local_port,) if local_port is not None else (port, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, wanted))
            listener.listen(MAX_CONNECTIONS)
        except OSError as error:
            listener.close()
            if local_port is None and wanted:
                continue
            raise UserError(
                f"cannot use port {wanted} of this machine: {error.strerror}",
                f"use another port with {port}:LOCAL, or any free port with {port}:0",
            ) from error
        return listener
    raise AssertionError("port 0 is always free")


def owner_of(link: socket.socket) -> int:
    """Return the uid of the process at the other end of a loopback connection, or -1 if it is unknown."""
    wanted = (_hexadecimal(link.getpeername()), _hexadecimal(link.getsockname()))
    with open("/proc/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            fields = line.split()
            if (fields[1], fields[2]) == wanted:
                return int(fields[7])
    return -1


def _hexadecimal(address: tuple[str, int]) -> str:
    """Return an address in the format of /proc/net/tcp, on machines of either byte order."""
    number = int.from_bytes(socket.inet_aton(address[0]), "big")
    return f"{socket.htonl(number):08X}:{address[1]:04X}"
