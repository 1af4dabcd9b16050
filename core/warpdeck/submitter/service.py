"""The submitter: one process of a user's that submits for their shells.

One thread takes questions, a few answer them, so that a script on a file system that does not answer holds up nobody else: who
has waited too long for one of them goes the other road. One more hands the recorder the folders of what was submitted. It ends
with the controller, after a while without work, when its program is replaced, and with any fault of its own; whoever waits for
an answer sees that it has ended.
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

from .caller import Caller, OtherRoad
from .request_fifos import LEAST_READY, READY, Question, Slots, hold
from .submission import Progress, Unanswered, submit

LINGER_S = 300.0
"""Without work: who submits now and then finds it, and who has stopped keeps no 40 MB on a login node."""
WORKERS = 4
"""Submissions under way at once: most of their time they wait for the controller's disk."""
PATIENCE_S = 5.0
"""How long a question waits for a worker: all of them stand still then, at scripts that cannot be read."""
LEAVE_S = 1.0
"""In which a worker that ends has ended; one that stands still is left."""
TICK_S = 0.5
MAX_ORDERS = 10_000
"""Jobs whose folder the recorder was not told yet; one more waits for its answer."""
GATHER_S = 0.02
"""A loop of submissions gives the recorder one order for several; a single job starts so much later."""
MAX_ORDERED = 1000
"""In one order to the recorder, which reads so many."""


def main(home: str) -> None:
    """Serves until there is no reason to."""
    os.chdir("/")
    os.umask(0o077)
    paths = Paths(home)
    folder = folder_of(paths)
    try:
        controller = SyncClient.connect(paths, start=False)
    except UserError:
        return  # there is nobody to submit to
    with controller:
        try:
            held = hold(folder)
        except BlockingIOError:
            return  # another does it
        importlib.import_module("warpdeck.slurm.submit.sbatch")  # or the first submission would
        Submitter(paths, Slots(folder), controller).run()
        os.close(held)


class Waiting:
    """Questions, oldest first. Those that wait too long can be taken out again."""

    def __init__(self) -> None:
        self._questions: deque[Question] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, question: Question) -> None:
        with self._changed:
            self._questions.append(question)
            self._changed.notify()

    def take(self) -> Question | None:
        """The next one, when it comes; None when none will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._questions or self._closed)
            return self._questions.popleft() if self._questions else None

    def overdue(self, now: float) -> list[Question]:
        """Those that have waited too long; they are taken out."""
        found = []
        with self._changed:
            while self._questions and now - self._questions[0].since > PATIENCE_S:
                found.append(self._questions.popleft())
        return found

    def close(self) -> None:
        """None will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Submitter:
    """`controller` is a connection on which nothing is asked: it ends when the controller does."""

    def __init__(
        self, paths: Paths, slots: Slots, controller: SyncClient, *, linger_s: float = LINGER_S
    ) -> None:
        self._paths = paths
        self._linger_s = linger_s
        self._slots = slots
        self._controller = controller
        self._program = _program()
        self._waiting = Waiting()
        self._orders: queue.Queue[tuple[int, str] | None] = queue.Queue(MAX_ORDERS)
        self._over = threading.Event()
        self._under_way: set[Progress] = set()

    def run(self) -> None:
        """Until it is over. What was submitted by then the recorder has been told."""
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(WORKERS)]
        clerk = threading.Thread(target=self._tell_recorder, daemon=True)
        for thread in (*workers, clerk):
            thread.start()
        self._take_questions()
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

    def _take_questions(self) -> None:
        last = time.monotonic()
        watched: list[Slots | SyncClient] = [self._slots, self._controller]
        while not self._over.is_set() and time.monotonic() - last < self._linger_s:
            ready, _, _ = select.select(watched, [], [], TICK_S)
            if self._controller in ready or _program() != self._program:
                return
            for question in self._slots.questions():
                last = time.monotonic()
                self._waiting.put(question)
            self._slots.refill(LEAST_READY if ready else READY)
            now = time.monotonic()
            for question in self._waiting.overdue(now):
                question.slot.close()
            self._slots.sweep(now)

    def _work(self) -> None:
        link: SyncClient | None = None
        try:
            while (question := self._waiting.take()) is not None:
                try:
                    link = link or SyncClient.connect(self._paths, start=False)
                    self._answer(question, link)
                finally:
                    question.slot.close()
        except (UserError, Unanswered):
            pass  # the controller has gone, and so do we
        finally:
            self._over.set()

    def _answer(self, question: Question, link: SyncClient) -> None:
        """Raises Unanswered."""
        # An answer that has no room is lost, and the shell says so.
        with contextlib.suppress(OtherRoad, BlockingIOError), Caller(question, self._paths) as caller:
            progress = Progress()
            self._under_way.add(progress)
            try:
                submit(
                    caller,
                    question.slot,
                    link,
                    paths=self._paths,
                    record=lambda job, folder: self._orders.put((job, folder)),
                    progress=progress,
                )
            finally:
                self._under_way.discard(progress)

    def _tell_recorder(self) -> None:
        """All jobs of a folder that were submitted meanwhile in one order."""
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
                with contextlib.suppress(UserError):  # all of them were cancelled, and nobody waits
                    order_or_tell(self._paths, jobs, folder)


def _program() -> tuple[int, int, int]:
    """Which program this is, as it lies on the disk; zeros where it lies there no more."""
    try:
        found = os.stat(_version.__file__)
    except OSError:
        return 0, 0, 0
    return found.st_dev, found.st_ino, found.st_mtime_ns
