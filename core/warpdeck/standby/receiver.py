"""The program on the standby that writes the copy: python -m warpdeck.standby.receiver --home FOLDER.

The controller starts it over SSH, and it lives as long as the connection. It reads messages from its standard input and
acknowledges batches after they are on disk. Batches that have arrived together are written in one transaction.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator

from warpdeck.base import standby_files
from warpdeck.base.controller_daemon import running_pid, take_lock
from warpdeck.base.errors import StoreError, UserError
from warpdeck.base.paths import OWN, Paths
from warpdeck.base.shared_home import open_to_all
from warpdeck.store.batch_log import Batch, Position
from warpdeck.store.replica import Replica

from . import messages
from .client_relay import ClientRelay
from .messages import LENGTH_BYTES, SILENCE_S, MessageError, Refused, StandbyMessage
from .site_files import Folder

MAX_TOGETHER = 500
"""Maximum number of batches in one transaction."""
PROBE_FILE = "standby-probe"
"""A file in the controller's home. A standby that finds it in its own home would write over the controller's database."""
OTHER_ENDS_S = 10.0
"""Seconds that an earlier receiver may take to end."""
CONTACT_S = 0.5
"""Seconds between two records of the last message."""


class Lost(Exception):
    """The controller has closed the connection, or sends nothing."""


class Connection:
    """The connection to the controller, over two file descriptors."""

    def __init__(self, read_from: int, write_to: int) -> None:
        self._read_from = read_from
        self._write_to = write_to
        self._lock = threading.Lock()

    def send(self, message: StandbyMessage) -> None:
        """Send a message, from any thread. Raises Lost."""
        view = memoryview(messages.packed(message))
        try:
            with self._lock:
                while view:
                    view = view[os.write(self._write_to, view) :]
        except OSError as error:
            raise Lost from error

    def next(self) -> messages.Sent:
        """Return the next message. Raises Lost or MessageError."""
        return messages.sent(self._exactly(messages.length_of(self._exactly(LENGTH_BYTES))))

    def has_more(self) -> bool:
        """Return whether a message has arrived, at least in part."""
        return bool(select.select([self._read_from], [], [], 0)[0])

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            if not select.select([self._read_from], [], [], SILENCE_S)[0]:
                raise Lost
            piece = os.read(self._read_from, min(size - len(data), 1 << 20))
            if not piece:
                raise Lost
            data += piece
        return bytes(data)


class Receiver:
    """Writes the copy into a home."""

    def __init__(self, paths: Paths, connection: Connection) -> None:
        self._paths = paths
        self._connection = connection
        self._replica = Replica(paths.database)
        self._folder = Folder(paths.home)
        self._number = -1
        """The number of the last batch of the database here."""
        self._told_at = 0.0
        self._relay: ClientRelay | None = None

    def run(self) -> None:
        """Serve the controller until the connection ends. Raises Lost, StoreError, UserError or MessageError."""
        opening = self._connection.next()
        if not isinstance(opening, messages.Opening):
            raise MessageError("the first message must be the opening")
        refused = refusal(self._paths, opening)
        if refused is not None:
            self._connection.send(refused)
            return
        if opening.only_asks:
            self._greet()
            return
        _end_other(self._paths)
        take_lock(self._paths)
        self._become_standby(opening)
        self._greet()
        relay = self._relay = ClientRelay(self._paths, self._send_quietly, is_shared=opening.is_shared)
        relay.start()
        try:
            for batches, message in _grouped(self._connection):
                if batches:
                    self._replica.apply(batches)
                    self._acknowledge(batches[-1].position.number)
                if message is not None:
                    self._handle(message)
        finally:
            relay.stop()
            self._replica.close()
            self._folder.close()

    def _send_quietly(self, message: StandbyMessage) -> None:
        """Send a message for a client. The main thread notices that the connection is lost."""
        with contextlib.suppress(Lost):
            self._connection.send(message)

    def _greet(self) -> None:
        position = self._replica.position()
        self._number = position.number
        self._connection.send(
            messages.Greeting(
                number=position.number,
                chain=position.chain,
                schema=self._replica.schema(),
                files=self._folder.present(),
            )
        )

    def _become_standby(self, opening: messages.Opening) -> None:
        if os.path.exists(self._paths.database) and not os.path.exists(self._paths.standby_role):
            self._replica.set_aside()
        role = {
            "host": opening.host,
            "home": opening.home,
            "mode": opening.mode,
            "generation": opening.generation,
            "since_unix": time.time(),
        }
        if opening.is_shared:
            open_to_all(self._paths)
        standby_files.write(self._paths.standby_role, role, mode=standby_files.FOR_ALL)
        for path in (self._paths.taken_over, self._paths.successor, self._paths.standby_settings):
            if os.path.exists(path):
                os.unlink(path)

    def _handle(self, message: messages.Sent) -> None:
        match message:
            case messages.CopyBegin():
                self._replica.begin_copy()
            case messages.CopyPiece():
                self._replica.add_to_copy(message.data)
            case messages.CopyEnd():
                self._replica.finish_copy(message.size_bytes)
                self._acknowledge(self._replica.position().number)
            case messages.FilePiece():
                self._folder.write(message)
            case messages.FileGone():
                self._folder.remove(message.path)
            case messages.Beat():
                self._record_contact(message.number, waits=message.waits)
            case messages.ClientData() | messages.ClientClosed():
                if self._relay is not None:
                    self._relay.deliver(message)
            case messages.Farewell():
                self._record_contact(self._number, waits=False, is_orderly=True)
            case _:
                raise MessageError(f"{type(message).__name__} is not expected now")

    def _acknowledge(self, number: int) -> None:
        self._number = number
        self._connection.send(messages.Acknowledged(number=number))

    def _record_contact(self, number: int, *, waits: bool, is_orderly: bool = False) -> None:
        now = time.monotonic()
        if now - self._told_at < CONTACT_S and not is_orderly:
            return
        self._told_at = now
        content = {
            "at_unix": time.time(),
            "number": number,
            "own_number": self._number,
            "waits": waits,
            "orderly": is_orderly,
        }
        standby_files.write(self._paths.standby_contact, content, durable=is_orderly)


def _grouped(connection: Connection) -> Iterator[tuple[list[Batch], messages.Sent | None]]:
    """Yield batches that have arrived together, each time with the other message that ended the group, if any."""
    batches: list[Batch] = []
    while True:
        message = connection.next()
        if isinstance(message, messages.BatchSent):
            batches.append(Batch(Position(message.number, message.chain), message.payload, 0.0))
            if len(batches) < MAX_TOGETHER and connection.has_more():
                continue
            yield batches, None
        else:
            yield batches, message
        batches = []


def refusal(paths: Paths, opening: messages.Opening) -> Refused | None:
    """Return why this home must not become, or stay, the standby of that controller, or None.

    Raises UserError if a file of the home cannot be read.
    """
    own = standby_files.generation(paths)
    if own > opening.generation:
        host = socket.gethostname()
        reason = f"{host} has taken over, and its controller serves the site"
        return Refused(reason=reason, successor=host)
    if _reads(os.path.join(paths.home, PROBE_FILE)) == opening.probe:
        return Refused(
            reason=f"{paths.home} on this host is the folder of the controller itself",
            hint="use a folder of the standby's own disk: warpdeck standby USER@HOST --home FOLDER",
        )
    pid = running_pid(paths)
    if pid and not is_receiver(pid):
        return Refused(
            reason=f"a controller runs in {paths.home}",
            hint="stop it there with `warpdeck down`, or use another folder: --home FOLDER",
        )
    has_database = os.path.exists(paths.database) and not os.path.exists(paths.standby_role)
    if has_database and controller_id_of(paths.database) != opening.controller_id:
        return Refused(
            reason=f"{paths.home} holds the database of another controller",
            hint="use another folder: warpdeck standby USER@HOST --home FOLDER",
        )
    return None


def controller_id_of(database: str) -> str:
    """Return the identity of the controller to which a database belongs, or "" if it cannot be read."""
    try:
        db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        try:
            row = db.execute("SELECT value FROM meta WHERE key = 'controller_id'").fetchone()
        finally:
            db.close()
    except sqlite3.Error:
        return ""
    return str(row[0]) if row else ""


def is_receiver(pid: int) -> bool:
    """Return whether a process is a receiver."""
    return b"warpdeck.standby.receiver" in (_reads(f"/proc/{pid}/cmdline") or "").encode()


def _reads(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return None


def _end_other(paths: Paths) -> None:
    """End the receiver of an earlier connection, which does not know yet that its connection is lost."""
    deadline = time.monotonic() + OTHER_ENDS_S
    while (pid := running_pid(paths)) and time.monotonic() < deadline:
        if is_receiver(pid):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.02)


def main(argv: list[str]) -> int:
    """Receive until the connection ends. Return the exit status."""
    parser = argparse.ArgumentParser(prog="warpdeck.standby.receiver")
    parser.add_argument("--home", required=True)
    paths = Paths(parser.parse_args(argv).home, wanted_engine=OWN)
    os.umask(0o077)
    print(f"\n{messages.READY}", flush=True)
    connection = Connection(0, 1)
    try:
        os.makedirs(paths.home, mode=0o700, exist_ok=True)
        Receiver(paths, connection).run()
    except Lost:
        return 0
    except (StoreError, UserError, OSError, MessageError) as error:
        try:
            connection.send(messages.Trouble(reason=str(error)))
        except Lost:
            pass
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
