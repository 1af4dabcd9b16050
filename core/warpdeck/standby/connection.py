"""One connection to the receiver on the standby: it is opened, brings the standby up to date, and then follows the store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncssh

from warpdeck.base import standby_files
from warpdeck.base.errors import RemoteError, UserError
from warpdeck.base.paths import Paths
from warpdeck.base.shared_home import is_open_to_all
from warpdeck.fleet.ssh.connect import connect
from warpdeck.fleet.ssh.deploy import MAX_NOISE_LINES, STEP_S
from warpdeck.fleet.transport import Progress
from warpdeck.store.batch_log import BatchLog, Position, read_position
from warpdeck.store.log_control import LogControl
from warpdeck.store.schema import MIGRATIONS

from . import messages
from .messages import BEAT_S, LENGTH_BYTES, PIECE_BYTES, READY, SILENCE_S, Greeting, Refused, StandbyMessage
from .program import install
from .receiver import PROBE_FILE
from .relayed_clients import RelayedClients, ServeClient
from .site_files import SiteFile, changed, gone, pieces, wanted_files

TRANSFER_FILE = "standby-copy.db"
"""The full copy in the controller's home while it is sent."""
MAX_AT_ONCE = 200
"""Maximum number of batches that are written before the connection is drained."""


class StandbyConnection:
    """An open connection to the receiver."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        process: asyncssh.SSHClientProcess[bytes],
        *,
        target: str,
        host: str,
        command: str,
    ) -> None:
        self.host = host
        """The standby's own host name."""
        self.command = command
        """The command that runs warpdeck there."""
        self.is_copying = True
        """Whether the standby does not have all batches up to the connection yet."""
        self._connection = connection
        self._process = process
        self._target = target
        self._tree_times: dict[str, int] = {}
        self._present: dict[str, tuple[int, int]] = {}
        self._greeting = Greeting(number=-1, chain="", schema=0, files={})
        self._files_lock = asyncio.Lock()

    async def greet(self, opening: messages.Opening) -> None:
        """Send the opening and read the greeting. Raises UserError, Superseded or RemoteError."""
        async with asyncio.timeout(STEP_S):
            for _ in range(MAX_NOISE_LINES):
                line = await self._process.stdout.readline()
                if not line:
                    raise RemoteError(self._target, f"the receiver did not start: {await self._last_words()}")
                if line.strip() == READY.encode():
                    break
            await self._send(opening)
            answer = await self._next()
        match answer:
            case Greeting():
                self._greeting, self._present = answer, dict(answer.files)
            case Refused() if answer.successor:
                raise messages.Superseded(answer.successor, answer.reason)
            case Refused():
                raise UserError(f"{self._target}: {answer.reason}", answer.hint)
            case messages.Trouble():
                raise RemoteError(self._target, answer.reason)
            case _:
                raise messages.MessageError("the receiver did not greet")

    async def follow(
        self, batches: BatchLog, control: LogControl, paths: Paths, *, with_keys: bool, serve: ServeClient
    ) -> None:
        """Bring the standby up to date and keep it so until the connection ends. It always ends with an error.

        `serve` serves the clients on the standby's machine.
        """
        clients = RelayedClients(serve, self._send)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._receive(batches, clients))
                group.create_task(self._beat(batches, paths, with_keys=with_keys))
                group.create_task(self._send_all(batches, control, paths, with_keys=with_keys))
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        finally:
            await clients.close()

    async def say_farewell(self) -> None:
        """Tell the standby that a person stops the controller."""
        await self._send(messages.Farewell())
        self._process.stdin.write_eof()
        await self._process.wait_closed()

    def close(self) -> None:
        self._connection.close()

    async def _send_all(
        self, batches: BatchLog, control: LogControl, paths: Paths, *, with_keys: bool
    ) -> None:
        await self._send_files(paths, with_keys=with_keys)
        greeting = self._greeting
        position = Position(greeting.number, greeting.chain)
        if greeting.schema != len(MIGRATIONS) or batches.after(position) is None:
            position = await self._send_copy(control, paths)
        else:
            batches.acknowledge(position.number)
        self.is_copying = False
        while True:
            missing = batches.after(position)
            if missing is None:
                raise RemoteError(self._target, "it is too far behind, and gets a full copy")
            if not missing:
                await batches.wait_changed()
                continue
            await self._send_files(paths, with_keys=with_keys, only_trees=True)
            for batch in missing[:MAX_AT_ONCE]:
                number, chain = batch.position
                self._write(messages.BatchSent(number=number, chain=chain, payload=batch.payload))
                position = batch.position
            await self._drain()

    async def _send_copy(self, control: LogControl, paths: Paths) -> Position:
        """Send a full copy of the database, and return its position."""
        path = os.path.join(paths.home, TRANSFER_FILE)
        try:
            await control.copy_to(path)
            position = await asyncio.to_thread(_position_of, path)
            await self._send(messages.CopyBegin())
            size_bytes = 0
            with open(path, "rb") as file:
                while piece := file.read(PIECE_BYTES):
                    await self._send(messages.CopyPiece(data=piece))
                    size_bytes += len(piece)
            await self._send(messages.CopyEnd(size_bytes=size_bytes))
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path + suffix)
        return position

    async def _send_files(self, paths: Paths, *, with_keys: bool, only_trees: bool = False) -> None:
        """Send the files of the home that the standby lacks.

        A batch may name a tree, so trees go before it. `only_trees` looks at the disk only if a tree has arrived.
        """
        async with self._files_lock:
            tree_times = _tree_times(paths)
            if only_trees and tree_times == self._tree_times:
                return
            wanted = await asyncio.to_thread(wanted_files, paths, with_keys=with_keys)
            send, remove = changed(wanted, self._present)
            for name in send:
                file = wanted[name]
                with contextlib.suppress(FileNotFoundError):
                    await self._send_file(name, file)
                    self._present[name] = (file.size_bytes, file.mtime_ns)
            for name in remove:
                await self._send(gone(name))
                del self._present[name]
            self._tree_times = tree_times

    async def _send_file(self, name: str, file: SiteFile) -> None:
        for piece in pieces(name, file):
            await self._send(piece)

    async def _beat(self, batches: BatchLog, paths: Paths, *, with_keys: bool) -> None:
        while True:
            await self._send(messages.Beat(number=batches.position.number, waits=batches.waits_for_standby))
            await asyncio.sleep(BEAT_S)
            if not self.is_copying:
                await self._send_files(paths, with_keys=with_keys)

    async def _receive(self, batches: BatchLog, clients: RelayedClients) -> None:
        while True:
            match await self._next():
                case messages.Acknowledged(number=number):
                    batches.acknowledge(number)
                case messages.Trouble(reason=reason):
                    raise RemoteError(self._target, reason)
                case messages.ClientOpened() | messages.ClientData() | messages.ClientClosed() as message:
                    await clients.handle(message)
                case other:
                    raise messages.MessageError(f"{type(other).__name__} is not expected now")

    async def _next(self) -> messages.Answer:
        try:
            header = await self._process.stdout.readexactly(LENGTH_BYTES)
            return messages.answer(await self._process.stdout.readexactly(messages.length_of(header)))
        except asyncio.IncompleteReadError as error:
            raise RemoteError(self._target, f"the receiver ended: {await self._last_words()}") from error
        except (OSError, asyncssh.Error) as error:
            raise RemoteError(self._target, f"connection lost: {error}") from error

    async def _last_words(self) -> str:
        with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
            async with asyncio.timeout(1):
                text = (await self._process.stderr.read()).decode("utf-8", "replace").strip()
                return text.splitlines()[-1] if text else "no message"
        return "no message"

    def _write(self, message: StandbyMessage) -> None:
        try:
            self._process.stdin.write(messages.packed(message))
        except (OSError, asyncssh.Error) as error:
            raise RemoteError(self._target, f"connection lost: {error}") from error

    async def _send(self, message: StandbyMessage) -> None:
        self._write(message)
        await self._drain()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(SILENCE_S):
                await self._process.stdin.drain()
        except TimeoutError as error:
            raise RemoteError(self._target, f"it takes no data for {SILENCE_S:.0f} s") from error
        except (OSError, asyncssh.Error) as error:
            raise RemoteError(self._target, f"connection lost: {error}") from error


async def open_connection(
    target: str,
    home: str,
    paths: Paths,
    *,
    controller_id: str,
    mode: str,
    accept_host_key: str = "",
    progress: Progress | None = None,
    only_asks: bool = False,
) -> StandbyConnection:
    """Bring our program to the host, start the receiver for its home, and greet it.

    Raises UserError, with the code "host_key" if a person must confirm a key, Superseded, or RemoteError.
    """
    report = progress or _ignore_progress
    await report(f"connecting to {target}")
    connection = await connect(target, paths, accept_host_key=accept_host_key)
    try:
        installed = await install(connection, target, report=report)
        await report(f"starting the receiver on {installed.host}")
        command = (
            f"exec {shlex.quote(installed.python)} -I -m warpdeck.standby.receiver --home {shlex.quote(home)}"
        )
        process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(command, encoding=None)
        opened = StandbyConnection(
            connection, process, target=target, host=installed.host, command=installed.command
        )
        probe = secrets.token_hex(16)
        with _probe_file(paths, probe):
            await opened.greet(
                messages.Opening(
                    host=socket.gethostname(),
                    home=paths.home,
                    controller_id=controller_id,
                    generation=standby_files.generation(paths),
                    mode=mode,
                    is_shared=is_open_to_all(paths),
                    probe=probe,
                    only_asks=only_asks,
                )
            )
    except (OSError, asyncssh.Error) as error:
        connection.close()
        raise RemoteError(target, f"connection lost: {error}") from error
    except BaseException:
        connection.close()
        raise
    return opened


@contextlib.contextmanager
def _probe_file(paths: Paths, text: str) -> Iterator[None]:
    """Return a context that writes the text into the home, so that a receiver recognizes a shared folder."""
    path = os.path.join(paths.home, PROBE_FILE)
    Path(path).write_text(text, encoding="ascii")
    try:
        yield
    finally:
        os.unlink(path)


def _tree_times(paths: Paths) -> dict[str, int]:
    """Return the time of the last change of each user's folder of trees."""
    try:
        return {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(paths.trees)}
    except FileNotFoundError:
        return {}


def _position_of(path: str) -> Position:
    with closing(sqlite3.connect(path)) as db:
        position = read_position(db)
    assert position is not None, "the database that was copied has a log"
    return position


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error that is not a group."""
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


async def _ignore_progress(_: str) -> None:
    return None
