"""The futures of an executor's calls, and the jobs that they share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple, TypeVar

from .calls import Call
from .client import Job

T = TypeVar("T")


class CallFuture(Future[T]):
    """The future of a call that a job makes."""

    def __init__(self) -> None:
        super().__init__()
        self.bundle: Bundle | None = None
        self._turn = threading.RLock()
        """A future may be told that it begins, or that it is cancelled, once in all."""

    @property
    def job(self) -> Job | None:
        """The job, or array task, that makes the call; None: it was not submitted yet. Calls that share one have the same."""
        return None if self.bundle is None else self.bundle.job

    def begins(self) -> None:
        """It runs; from now on it cannot be cancelled."""
        with self._turn:
            if not self.running() and not self.done():
                self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Whether it is cancelled: unless it has ended, or its job was seen to run. The job goes with the last of its calls; one
        that began this moment is ended all the same. Where others of its calls are wanted, the job may still make this one."""
        with self._turn:
            if self.cancelled():
                return True
            if not super().cancel():
                return False
            self.set_running_or_notify_cancel()
        if self.bundle is not None:
            self.bundle.let_go()
        return True

    def settle(self, *, result: Any = None, error: BaseException | None = None) -> None:
        """Says the end, unless the caller has cancelled it meanwhile."""
        with contextlib.suppress(InvalidStateError):
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(result)


class CallRequest(NamedTuple):
    """A call that waits to be sent. `together`: how many calls may share its job."""

    future: CallFuture[Any]
    call: Call
    together: int


class Bundle:
    """The futures whose calls one job makes, in this order, and that job once it was submitted. `cancel` ends a job."""

    def __init__(self, futures: list[CallFuture[Any]], *, cancel: Callable[[Job], None]) -> None:
        self.futures = futures
        self.job: Job | None = None
        self._cancel = cancel
        for future in futures:
            future.bundle = self

    @property
    def wanted(self) -> bool:
        """Whether anybody wants any of its answers."""
        return not all(future.cancelled() for future in self.futures)

    def submitted(self, job: Job) -> None:
        """Its job is in the queue."""
        self.job = job
        self.let_go()

    def begins(self) -> None:
        """Its job runs."""
        for future in self.futures:
            future.begins()

    def let_go(self) -> None:
        """Cancels the job if nobody wants it. Any thread's: it may be told twice."""
        if self.job is not None and not self.wanted:
            self._cancel(self.job)
