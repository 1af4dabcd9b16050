"""`warpdeck.Executor` runs functions as jobs, with the interface of `concurrent.futures`.

    with warpdeck.Executor(gpus=1, time="1:00:00") as pool:
        losses = list(pool.map(train, [0.1, 0.01, 0.001]))

Each call is a job, or a task of an array: calls that arrive while a submission is in progress go into the
next one as an array. A call travels to its node in the batch script, and its answer comes back as the job's
output, so no shared folder is needed. Functions are pickled by cloudpickle if it is installed, else by
pickle. The node needs the same version of Python, and the modules that the function imports. The code of the
folder is sent as a snapshot, as with any job.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor as Base
from concurrent.futures import Future, wait
from typing import Any, Literal, TypeVar

from warpdeck.base.errors import UserError

from .answer_data import load_data
from .callfutures import CallFuture, CallRequest
from .callrunner import CallRunner
from .calls import PackedCall, packed_call, packed_function
from .client import Client
from .drafting import Snapshots

T = TypeVar("T")
LOADERS: dict[str, Callable[[bytes], Any]] = {"any": pickle.loads, "data": load_data}
"""Functions that unpickle answers, by the executor's argument `answers`."""
OURS = ("array", "output", "error", "input", "open_mode", "wrap", "text", "command")
"""Options that the executor sets itself."""


class Executor(Base):
    """Calls functions on the cluster. `client` chooses the controller; by default the executor has its own
    client.

    `options` are those of sbatch for each call, as in `Client.submit`, and so are `cwd`, `env` and
    `snapshot`. `folder` keeps the outputs; text that a function prints is in NUMBER.log there. By default
    outputs are removed at the end. `python` is the interpreter on the nodes.

    `chunksize` is the number of calls that may share a job. They run one after the other in one process,
    which saves small functions the start of Python. Their answers come when the job ends, and a call that
    kills the job also fails the calls after it.

    `answers` says what a call may return. With "any", answers are unpickled without a check, so whoever controls a node can
    run code in this program. With "data", only plain data, NumPy arrays and Python's own exceptions are accepted.
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
        answers: Literal["any", "data"] = "any",
        **options: Any,
    ) -> None:
        for name in OURS:
            if name in options:
                raise UserError(f"{name} is set by the executor", "remove it")
        self._together = _checked(chunksize)
        self._own = client is None
        self._client = client or Client()
        given = {"cwd": cwd, "env": env, "snapshot": snapshot, **options}
        self._runner = CallRunner(
            self._client, folder=folder, python=python, given=given, load=LOADERS[answers]
        )
        self._lock = threading.Lock()
        self._open: set[CallFuture[Any]] = set()
        self._closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> CallFuture[T]:
        """Run the call as a job. Functions that cannot be sent, and refused submissions, give the future a
        UserError.

        The future's `job` is set after submission. The future's `cancel` also cancels the job, until the job
        was seen to run. Raises RuntimeError after `shutdown`.
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
        """Like `builtins.map`, in the order of the arguments. `chunksize` calls run in one job; the default
        is the executor's.

        Iterating raises the exception of a call at its position, and TimeoutError if a result is missing
        `timeout` seconds after this call.
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
        """Accept no more calls. `cancel_futures` cancels calls that were not seen to run; `wait` waits for
        the others.
        """
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


def _calls(fn: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[PackedCall]:
    """Yield the packed calls; the function is packed once. Raises UserError for a value that cannot be sent."""
    function = None
    for args in arguments:
        function = function or packed_function(fn)
        yield packed_call(function, args, {})


def _results(futures: list[CallFuture[T]], deadline: float | None, refusal: UserError | None) -> Iterator[T]:
    """Yield the results. Unused futures are canceled, as by the executors of the standard library."""
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
