"""warpdeck.Executor: functions as jobs, behind the interface of concurrent.futures.

    with warpdeck.Executor(gpus=1, time="1:00:00") as pool:
        losses = list(pool.map(train, [0.1, 0.01, 0.001]))

Each call is a job, or a task of an array: what is called while the last submission is on its way goes into the next as one
array. A call goes to its node in the batch script and its answer comes back as the job's output, by whatever road outputs
come, so no folder need be shared. Functions are pickled by cloudpickle if it is there, else by pickle; the node's Python must be of
this version and must have what the function imports. The code of the folder goes along as a snapshot, as with any job.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor as Base
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from warpdeck.base.errors import UserError

from .callfutures import CallFuture, CallRequest
from .callrunner import CallRunner
from .calls import Call, packed_call, packed_function
from .client import Client
from .drafting import Snapshots

T = TypeVar("T")
OURS = ("array", "output", "error", "input", "open_mode", "wrap", "text", "command")
"""What the executor itself says of its jobs."""


class Executor(Base):
    """Calls functions on the cluster. `client`: whose controller; by default the executor has one of its own.

    `options` are sbatch's for each call, as in Client.submit; so are `cwd`, `env` and `snapshot`. `folder`: where outputs are
    kept, what a function prints as NUMBER.log; by default they are removed at the end. `python`: of the nodes.

    `chunksize`: how many calls may share a job, one after another in one process, which spares small functions the start of a
    Python each; their answers come when the job ends, and a call that kills the job takes those behind it along.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        chunksize: int = 1,
        folder: str | os.PathLike[str] | None = None,
        python: str = sys.executable,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        snapshot: Snapshots = "auto",
        **options: Any,
    ) -> None:
        for name in OURS:
            if name in options:
                raise UserError(f"{name} is the executor's own to say", "leave it out")
        self._together = _checked(chunksize)
        self._own = client is None
        self._client = client or Client()
        given = {"cwd": cwd, "env": env, "snapshot": snapshot, **options}
        self._runner = CallRunner(self._client, folder=folder, python=python, given=given)
        self._lock = threading.Lock()
        self._open: set[CallFuture[Any]] = set()
        self._closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> CallFuture[T]:
        """The call as a job. What cannot be sent, and a submission that is refused, is the future's error: a UserError.

        The future's `job` is that job once it is submitted. `cancel` ends it too, as long as it was not seen to run. Raises
        RuntimeError after `shutdown`.
        """
        future = CallFuture[T]()
        try:
            call = packed_call(packed_function(fn), args, kwargs)
        except UserError as error:
            self._begin([future], [])
            future.set_exception(error)
        else:
            self._begin([future], [CallRequest(future, call, self._together)])
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
    ) -> Iterator[T]:
        """As builtins.map, in the order of the arguments. `chunksize` calls run in one job; by default the executor's.

        Raises what a call raised when its result is asked for, and TimeoutError for one that is not there `timeout` seconds after
        this call.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        together = self._together if chunksize is None else _checked(chunksize)
        futures: list[CallFuture[T]] = []
        asked: list[CallRequest] = []
        refusal = None
        try:
            for call in _calls(fn, zip(*iterables, strict=False)):
                futures.append(CallFuture())
                asked.append(CallRequest(futures[-1], call, together))
        except UserError as error:
            refusal = error
        self._begin(futures, asked)
        return _results(futures, deadline, refusal)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more calls. `cancel_futures` cancels those that were not seen to run; `wait` waits for the others."""
        with self._lock:
            first, self._closed = not self._closed, True
            left = list(self._open)
        for future in left if cancel_futures else ():
            future.cancel()
        if wait:
            self._end(left)
        elif first:
            threading.Thread(target=self._end, args=(left,), name="warpdeck executor", daemon=True).start()

    def _begin(self, futures: Sequence[CallFuture[T]], asked: Sequence[CallRequest]) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._runner.begin(asked)
            self._open.update(futures)
        for future in futures:
            future.add_done_callback(self._ended)

    def _ended(self, future: Future[Any]) -> None:
        with self._lock:
            self._open.discard(future)

    def _end(self, left: list[CallFuture[Any]]) -> None:
        wait(left)
        self._runner.close()
        if self._own:
            self._client.close()


def _checked(chunksize: int) -> int:
    if chunksize < 1:
        raise ValueError("chunksize must be 1 or more")
    return chunksize


def _calls(fn: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Call]:
    """The function is packed once. Raises UserError at what cannot be sent."""
    function = None
    for args in arguments:
        function = function or packed_function(fn)
        yield packed_call(function, args, {})


def _results(futures: list[CallFuture[T]], deadline: float | None, refusal: UserError | None) -> Iterator[T]:
    """What is not asked for any more is cancelled, as the standard library's executors do."""
    futures.reverse()
    try:
        while futures:
            left_s = None if deadline is None else deadline - time.monotonic()
            result = futures[-1].result(left_s)
            futures.pop()
            yield result
        if refusal is not None:
            raise refusal
    finally:
        for future in futures:
            future.cancel()
