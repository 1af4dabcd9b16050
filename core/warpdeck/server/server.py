"""The controller's Unix socket.

It identifies each client through the kernel, and decodes, limits and answers requests.

One task per connection reads; each request runs in its own task. Messages are sent through the connection's
outbox, so a client that does not read delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pwd
import socket
import struct
from collections.abc import Callable, Collection
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.model import JobId, NodeName
from warpdeck.ports.caller import Caller, JobProcess, LocalClient, Principal
from warpdeck.ports.engine import Engine
from warpdeck.protocol.requests import MAX_CLIENTS, MAX_CLIENTS_OF_USER

from .audit.recorder import local_client
from .connection import Connection
from .handlers import Handlers
from .services import Services

log = logging.getLogger("warpdeck.api")

NOBODY = Principal(user="", uid=-1)
"""A user without any rights; such a client gets only the reason for the refusal."""


class ApiServer(Services):
    """Listens on the socket and makes a Connection for each client."""

    def __init__(
        self, engine: Engine, paths: Paths, *, stop: asyncio.Event, clock: Callable[[], float]
    ) -> None:
        super().__init__(engine, paths, stop=stop, clock=clock)
        self._handle = Handlers(engine).handle
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self._connections: dict[int, set[Connection]] = {}
        """Connections by the uid of their user."""

    @property
    def connections(self) -> tuple[Connection, ...]:
        return tuple(each for of_one in self._connections.values() for each in of_one)

    def of_user(self, uid: int) -> Collection[Connection]:
        """Return the user's connections."""
        return self._connections.get(uid, ())

    async def start(self) -> None:
        """Bind the socket.

        It is open to all users if the controller runs as root, else only to its own user.
        """
        folder = os.open(self.paths.home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        address = f"/proc/self/fd/{folder}/{os.path.basename(self.paths.socket)}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address)
        os.chmod(address, 0o666 if os.geteuid() == 0 else 0o600)
        listener.setblocking(False)
        os.close(folder)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener)
        self.engine.steps.start()

    async def close(self) -> None:
        """End all connections, including those just being accepted. Work that they started continues."""
        self._is_closed = True
        self.engine.steps.stop()
        self.commands.close()
        if self._server is not None:
            self._server.close()
        for connection in self.connections:
            connection.close()
        self.audit.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.paths.socket)

    def _full(self, who: Principal) -> str:
        """Return why this user may not connect now, or "" if the user may."""
        if sum(len(of_one) for of_one in self._connections.values()) >= MAX_CLIENTS and not who.admin:
            return f"{MAX_CLIENTS} clients are already connected"
        if sum(not other.beside for other in self.of_user(who.uid)) >= MAX_CLIENTS_OF_USER:
            return f"{MAX_CLIENTS_OF_USER} clients of {who.user} are already connected"
        return ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, uid = _peer(writer)
        try:
            caller = Caller(identify(uid, self.paths.daemon), client=local_client(pid))
        except UserError as error:
            stranger = Caller(Principal(user=_name_now(uid), uid=uid), client=local_client(pid))
            self._connection(reader, writer, stranger).refuse(error)
            return
        await self._serve_client(self._connection(reader, writer, caller))

    async def serve_relayed(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int
    ) -> None:
        """Serve a client on the machine of the standby. Its kernel has named the user."""
        client = LocalClient(pid=0, program="on the standby")
        try:
            caller = Caller(identify(uid, self.paths.daemon), client=client)
        except UserError as error:
            stranger = Caller(Principal(user=_name_now(uid), uid=uid), client=client)
            self._connection(reader, writer, stranger).refuse(error)
            return
        await self._serve_client(self._connection(reader, writer, caller))

    async def serve_call(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        job_id: JobId,
        restarts: int,
        node: NodeName,
        lost: asyncio.Event,
    ) -> None:
        """Serve a process of a job, which is forwarded by its node's agent.

        It acts as the job's user, never as an admin.

        An agent can forward only processes of jobs that run on its node.
        """
        owner = self.engine.jobs.owner(job_id, restarts=restarts, node=node)
        process = JobProcess(job_id=job_id, node=node, lost=lost)
        if owner is None:
            stranger = self._connection(reader, writer, Caller(NOBODY, process))
            stranger.refuse(UserError(f"job {job_id} does not run on {node}", "", code="no_job"))
            return
        caller = Caller(owner, process)
        await self._serve_client(self._connection(reader, writer, caller))

    async def serve_beside(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller
    ) -> None:
        """Serve a second connection for a client that is already connected.

        A program that we run for the client uses it and has the client's rights, and no others.
        """
        await self._keep(self._connection(reader, writer, caller, beside=True))

    def _connection(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        caller: Caller,
        *,
        beside: bool = False,
    ) -> Connection:
        return Connection(self, reader, writer, caller, self._handle, beside=beside)

    async def _serve_client(self, connection: Connection) -> None:
        full = self._full(connection.who)
        if full:
            connection.refuse(UserError(full, "close some of them"))
        else:
            await self._keep(connection)

    async def _keep(self, connection: Connection) -> None:
        if self._is_closed:  # The connection was accepted a moment before; the store is about to close.
            connection.close()
            return
        of_one = self._connections.setdefault(connection.who.uid, set())
        of_one.add(connection)
        try:
            await self.loop_time.metered(connection.who.uid, connection.run())
            await connection.closed()
        finally:
            of_one.discard(connection)
            if not of_one:
                self._connections.pop(connection.who.uid, None)


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Return the pid and the uid at the other end (SO_PEERCRED)."""
    peer: Any = writer.get_extra_info("socket")
    pid, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def _name_now(uid: int) -> str:
    """Return the user's present name. It is not cached, because an account may be deleted and created again."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def identify(uid: int, daemon: str) -> Principal:
    """Return the user with this uid at the other end.

    Raises UserError if a personal controller, or a gateway, does not serve this user.
    """
    own = os.geteuid()
    if own != 0 and uid not in (own, 0):
        raise UserError(
            f"this {daemon} serves only its own user", f"unset WARPDECK_HOME to use your own {daemon}"
        )
    return Principal(user=_name_now(uid), uid=uid, admin=uid in (0, own))
