"""The submitter: a process that submits jobs for the shells of one user.

One thread receives requests and a few threads answer them, so that a script on a file system that hangs does
not block the others. A request that waits too long for a thread is left to the client in Python. One more
thread tells the recorder the folders of submitted jobs. The process ends with the controller, after some time
without requests, when its program is replaced, and after any error of its own. A shell that is waiting for an
answer sees that the process has ended.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import select
import threading
import time
from collections import deque

from warpdeck import _version
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import folder_of
from warpdeck.client.blocking_client import AGAIN_S, ANSWER_S, SyncClient
from warpdeck.client.snapshot_requests import order_or_tell

from .caller import CallingShell, LeftToClient
from .request_fifos import LEAST_READY, READY, ShellRequest, Slots, lock_folder
from .submission import SubmissionProgress, Unanswered, submit

LINGER_S = 300.0
"""Seconds without requests after which the process ends. Occasional submissions still find it, and users who
have stopped do not keep 40 MB on a login node.
"""
WORKERS = 4
"""Number of submissions at the same time. Most of their time they wait for the controller's disk."""
PATIENCE_S = 5.0
"""Seconds that a request waits for a thread. After that, all threads probably hang at scripts that cannot be
read.
"""
LEAVE_S = 1.0
"""Seconds to wait for a thread to end. A thread that hangs is abandoned."""
TICK_S = 0.5
MAX_ORDERS = 10_000
"""Largest number of jobs whose folder the recorder was not told yet. Further submissions wait."""
GATHER_S = 0.02
"""Seconds in which jobs are collected into one order to the recorder, so that a loop of submissions needs few
orders. A single job starts this much later.
"""
MAX_ORDERED = 1000
"""Largest number of jobs in one order, which is the limit of the recorder."""


def main(home: str) -> None:
    """Serve requests until there is a reason to end."""
    os.chdir("/")
    os.umask(0o077)
    paths = Paths(home)
    folder = folder_of(paths)
    try:
        controller = SyncClient.connect(paths, start=False)
    except UserError:
        return  # there is no controller to submit to
    with controller:
        try:
            held = lock_folder(folder)
        except BlockingIOError:
            return  # another submitter is running
        importlib.import_module("warpdeck.slurm.submit.sbatch")
        Submitter(paths, Slots(folder), controller).run()
        os.close(held)


class RequestQueue:
    """Queue of requests, oldest first. Requests that wait too long can be removed."""

    def __init__(self) -> None:
        self._requests: deque[ShellRequest] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, request: ShellRequest) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify()

    def take(self) -> ShellRequest | None:
        """Wait for the next request and return it. Return None if the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests or self._closed)
            return self._requests.popleft() if self._requests else None

    def overdue(self, now: float) -> list[ShellRequest]:
        """Remove and return the requests that have waited too long."""
        found = []
        with self._changed:
            while self._requests and now - self._requests[0].since > PATIENCE_S:
                found.append(self._requests.popleft())
        return found

    def close(self) -> None:
        """Declare that no more requests will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Submitter:
    """Serves requests until its end.

    `controller` is a connection without requests, which shows when the controller ends.
    """

    def __init__(
        self, paths: Paths, slots: Slots, controller: SyncClient, *, linger_s: float = LINGER_S
    ) -> None:
        self._paths = paths
        self._linger_s = linger_s
        self._slots = slots
        self._controller = controller
        self._program = _program()
        self._waiting = RequestQueue()
        self._orders: queue.Queue[tuple[int, str] | None] = queue.Queue(MAX_ORDERS)
        self._over = threading.Event()
        self._under_way: set[SubmissionProgress] = set()

    def run(self) -> None:
        """Serve until the end. Before returning, tell the recorder about everything that was submitted."""
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(WORKERS)]
        clerk = threading.Thread(target=self._tell_recorder, daemon=True)
        for thread in (*workers, clerk):
            thread.start()
        self._take_requests()
        self._slots.close()
        self._waiting.close()
        for thread in workers:
            thread.join(LEAVE_S)
        until = time.monotonic() + AGAIN_S + ANSWER_S
        while any(each.is_open for each in list(self._under_way)) and time.monotonic() < until:
            time.sleep(TICK_S)
        for thread in workers:
            thread.join(LEAVE_S)
        self._orders.put(None)
        clerk.join()

    def _take_requests(self) -> None:
        last = time.monotonic()
        watched: list[Slots | SyncClient] = [self._slots, self._controller]
        while not self._over.is_set() and time.monotonic() - last < self._linger_s:
            ready, _, _ = select.select(watched, [], [], TICK_S)
            if self._controller in ready or _program() != self._program:
                return
            for request in self._slots.requests():
                last = time.monotonic()
                self._waiting.put(request)
            self._slots.refill(LEAST_READY if ready else READY)
            now = time.monotonic()
            for request in self._waiting.overdue(now):
                request.slot.close()
            self._slots.sweep(now)

    def _work(self) -> None:
        link: SyncClient | None = None
        try:
            while (request := self._waiting.take()) is not None:
                try:
                    link = link or SyncClient.connect(self._paths, start=False)
                    self._answer(request, link)
                finally:
                    request.slot.close()
        except (UserError, Unanswered):
            pass  # the controller has ended, so this process ends, too
        finally:
            self._over.set()

    def _answer(self, request: ShellRequest, link: SyncClient) -> None:
        """Answer one request. Raises Unanswered."""
        # An answer that does not fit into the FIFO is lost, and the shell reports that.
        with contextlib.suppress(LeftToClient, BlockingIOError), CallingShell(request, self._paths) as caller:
            progress = SubmissionProgress()
            self._under_way.add(progress)
            try:
                submit(
                    caller,
                    request.slot,
                    link,
                    paths=self._paths,
                    record=lambda job, folder: self._orders.put((job, folder)),
                    progress=progress,
                )
            finally:
                self._under_way.discard(progress)

    def _tell_recorder(self) -> None:
        """Tell the recorder about submitted jobs, with one order for all recent jobs of a folder."""
        over = False
        while not over:
            orders = [self._orders.get()]
            if orders[0] is not None:
                time.sleep(GATHER_S)
            while len(orders) < MAX_ORDERED and not self._orders.empty():
                orders.append(self._orders.get())
            over = None in orders
            jobs_of: dict[str, list[int]] = {}
            for job, folder in filter(None, orders):
                jobs_of.setdefault(folder, []).append(job)
            for folder, jobs in jobs_of.items():
                with contextlib.suppress(UserError):  # all of the jobs were canceled, so none is waiting
                    order_or_tell(self._paths, jobs, folder)


def _program() -> tuple[int, int, int]:
    """Identify the installed program by its file (device, inode, mtime), or zeros if it no longer exists."""
    try:
        found = os.stat(_version.__file__)
    except OSError:
        return 0, 0, 0
    return found.st_dev, found.st_ino, found.st_mtime_ns
