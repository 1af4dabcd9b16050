"""Futures of the executor's calls, and the jobs that these calls share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple, TypeVar

from .calls import PackedCall
from .client import Job

T = TypeVar("T")


class CallFuture(Future[T]):
    """The future of a call that runs in a job."""

    def __init__(self) -> None:
        super().__init__()
        self.bundle: Bundle | None = None
        self._turn = threading.RLock()
        """A future changes to running, or to canceled, only once."""

    @property
    def job(self) -> Job | None:
        """The job or array task that runs the call, or None before submission. Calls that share a job have
        the same value.
        """
        return None if self.bundle is None else self.bundle.job

    def begins(self) -> None:
        """Mark the call as running. It cannot be canceled any more."""
        with self._turn:
            if not self.running() and not self.done():
                self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Cancel the call and return True, unless it has ended or its job was seen to run.

        The job is canceled with the last of its calls, even if it has begun at this moment. If other calls of
        the job are still wanted, the job may run this call nevertheless.
        """
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
        """Set the result or the error, unless the caller has canceled the future in the meantime."""
        with contextlib.suppress(InvalidStateError):
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(result)


class CallRequest(NamedTuple):
    """A call that waits to be sent. `together` is the number of calls that may share its job."""

    future: CallFuture[Any]
    call: PackedCall
    together: int


class Bundle:
    """The futures of the calls in one job, in the order of the calls, and the job after its submission. `cancel` cancels
    a job.
    """

    def __init__(self, futures: list[CallFuture[Any]], *, cancel: Callable[[Job], None]) -> None:
        self.futures = futures
        self.job: Job | None = None
        self._cancel = cancel
        for future in futures:
            future.bundle = self

    @property
    def wanted(self) -> bool:
        """True if any of the futures is not canceled."""
        return not all(future.cancelled() for future in self.futures)

    def submitted(self, job: Job) -> None:
        """Record the submitted job."""
        self.job = job
        self.let_go()

    def begins(self) -> None:
        """Mark all calls as running."""
        for future in self.futures:
            future.begins()

    def let_go(self) -> None:
        """Cancel the job if all of its futures are canceled. Any thread may call it, also repeatedly."""
        if self.job is not None and not self.wanted:
            self._cancel(self.job)
