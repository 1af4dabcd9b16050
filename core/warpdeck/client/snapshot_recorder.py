"""A process of the user that captures the code of newly submitted jobs, one capture after another.

sbatch sends the job's number and folder, and then ends. Jobs that are submitted from the same folder during a
capture share the next one, which begins after all of them were submitted. A job waits for its record
(controller/reducers/code_recording). So the record contains the code shortly after the submission, and before the job
itself has written anything. The process ends after some time without work. If a capture fails, the error is
noted in the job's history, and the job starts without a record.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import threading
import time

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.snapshots.capture import Capture, capture_folder
from warpdeck.snapshots.folder_state import FolderState, folder_state
from warpdeck_agent.wire import jsontext

from .blocking_client import GONE, SyncClient
from .snapshot_requests import hand_over, socket_of
from .submission import upload_tree

PACE_S = 0.1
"""Least time in seconds between the starts of two captures, so that a loop of submissions needs few captures
and can use the machine.
"""
LINGER_S = 30.0
"""Seconds without work after which the process ends. Loops of submissions find it running; starting it takes
a tenth of a second.
"""
ORDER_S = 1.0
MAX_ORDER_BYTES = 64 * 1024
"""Largest size of an order. The name of a folder is shorter."""
BACKLOG = 128
TAKE_OVER_S = 20.0
"""Seconds in which an ending recorder must have ended."""
TELL_S = 60.0
"""Seconds for which an unreachable controller, or one that cannot write, is tried. After that its jobs no
longer wait.
"""
NOBODY_WAITS = {"not_found", "not_recording"}
"""Error codes which mean that all of the jobs were canceled or already have their record."""
PAUSE_S = 0.2
MAX_NOTE_CHARS = 500
NICE = 3
"""Least niceness, with which the process gets half the CPU share of others. So loops of submissions have priority,
but a busy login node does not delay the jobs much.
"""
MAX_FOLDERS = 64
"""Number of folders whose last capture is remembered."""


def main(home: str, line: str) -> None:
    """Serve orders until there is no more work. `line` is the first order."""
    os.chdir("/")
    os.umask(0o077)
    paths = Paths(home)
    lock = os.open(socket_of(paths) + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + TAKE_OVER_S
    while not _locked(lock):
        # Another recorder was started at the same time, or is ending.
        if hand_over(paths, line) or time.monotonic() > deadline:
            return
        time.sleep(PAUSE_S / 10)
    if os.getpriority(os.PRIO_PROCESS, 0) < NICE:  # only root may lower the niceness
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    Recorder(paths).run(line)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Recorder:
    """Receives orders in one thread, and captures folders in another."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._asked: dict[str, list[int]] = {}
        """Maps folders to their waiting jobs, oldest first."""
        self._busy = False
        self._before: dict[str, tuple[Capture, FolderState | None]] = {}
        """Maps folders to their last capture, and to their state before it."""
        self._changed = threading.Condition()

    def run(self, line: str) -> None:
        """Serve until there was no order for some time."""
        self._take(line)
        threading.Thread(target=self._work, name="captures", daemon=True).start()
        with self._listen() as listener:
            while select.select([listener], [], [], LINGER_S)[0] or self._has_work():
                self._accept(listener)
            os.unlink(socket_of(self._paths))  # later clients cannot connect, and start another recorder

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        folder, name = os.path.split(socket_of(self._paths))
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=descriptor)
            listener.bind(f"/proc/self/fd/{descriptor}/{name}")
        finally:
            os.close(descriptor)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        return listener

    def _accept(self, listener: socket.socket) -> None:
        try:
            link, _ = listener.accept()
        except BlockingIOError:
            return
        with link:
            link.settimeout(ORDER_S)
            data = b""
            try:
                while not data.endswith(b"\n") and len(data) < MAX_ORDER_BYTES:
                    piece = link.recv(MAX_ORDER_BYTES)
                    if not piece:
                        return
                    data += piece
                self._take(data.decode())
                link.sendall(b"1")
            except (OSError, ValueError, KeyError, TypeError):
                return  # the client gets no answer, and starts its own recorder

    def _take(self, line: str) -> None:
        asked = jsontext.loads(line)
        with self._changed:
            self._asked.setdefault(str(asked["folder"]), []).extend(map(int, asked["jobs"]))
            self._changed.notify()

    def _has_work(self) -> bool:
        with self._changed:
            return self._busy or bool(self._asked)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.wait_for(lambda: self._asked)
                folder = next(iter(self._asked))
                jobs = self._asked.pop(folder)
                self._busy = True
            begun = time.monotonic()
            self._record(folder, jobs)
            time.sleep(max(0.0, begun + PACE_S - time.monotonic()))

    def _record(self, folder: str, jobs: list[int]) -> None:
        try:
            taken = self._taken(folder)
        except (UserError, OSError) as error:
            taken = Capture(None, [f"no snapshot: {error}"])
        deadline = time.monotonic() + TELL_S
        while time.monotonic() < deadline:
            try:
                self._tell(taken, jobs)
            except UserError as error:
                if error.code in NOBODY_WAITS:
                    return
                time.sleep(PAUSE_S)
            else:
                return

    def _taken(self, folder: str) -> Capture:
        """Return a new capture of the folder, or the last one if nothing has changed.

        Raises UserError and OSError.
        """
        before, seen = self._before.pop(folder, (None, None))
        now = folder_state(before) if before is not None and before.snapshot is not None else None
        if (
            before is None
            or seen is None
            or now is None
            or now.facts != seen.facts
            or not seen.shows_every_change
        ):
            before = capture_folder(folder, self._paths.snapshots)
        if len(self._before) >= MAX_FOLDERS:
            del self._before[next(iter(self._before))]
        self._before[folder] = before, now
        return before

    def _tell(self, taken: Capture, jobs: list[int]) -> None:
        """Send the capture to the controller.

        Raises UserError if it is unreachable, cannot write, or none of the jobs waits.
        """
        with SyncClient.connect(self._paths, start=False) as client:
            snapshot, notes = taken.snapshot, taken.notes
            try:
                if snapshot is not None:
                    upload_tree(client, snapshot, taken.packed)
            except UserError as error:
                if error.code == GONE:
                    raise
                snapshot, notes = None, [f"no snapshot: {error}"]
            named = [str(job) for job in jobs]
            client.call(
                "code_recorded", jobs=named, snapshot=snapshot, note="; ".join(notes)[:MAX_NOTE_CHARS]
            )
