"""Queries to file systems that may never answer, because a server hangs.

A process that queries a hanging mount cannot be killed by any signal. So a child process asks, and can be
abandoned. If a thread of the agent asked, a killed agent could not exit and would keep its lock, and no other
agent could start. A hanging path is not queried again before it has answered, so there is at most one child
for each path, and a thread that waits for it.

On a machine under heavy load, a child also takes long to start. So before a path counts as hanging, a control is asked
a question that every machine answers at once. While the control is slow, the paths have more time, up to LONGEST_S.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from functools import partial
from typing import Any, Callable, Dict, Hashable, List, Optional, Sequence

from .own_program import OWN, SYSTEM_PATH

ANSWER_S = 10.0
"""A mount that takes longer, in seconds, counts as hanging."""

CONTROL_S = 1.0
"""A control that takes longer, in seconds, shows that the machine is slow. It takes some milliseconds."""
LONGEST_S = 120.0
"""A path that takes longer, in seconds, counts as hanging even if the machine is slow."""

Probe = Callable[[Any], Any]


class Probes:
    """Asks one question about any path, or any other hashable key.

    `probe` may block forever, and raises OSError.
    """

    def __init__(
        self, probe: Probe, *, answer_s: float = ANSWER_S, control: Optional[Callable[[], object]] = None
    ) -> None:
        self._probe = probe
        self._control = control or start_child
        self._answer_s = answer_s
        self._pending: Dict[Hashable, asyncio.Future[Any]] = {}

    async def ask(self, paths: Sequence[Hashable]) -> Dict[Any, Any]:
        """Return, for each path, the result of the probe, its error, or None if it has not answered yet."""
        loop = asyncio.get_running_loop()
        for path in paths:
            if path not in self._pending:
                answer = self._pending[path] = loop.create_future()
                work = threading.Thread(
                    target=self._run, args=(partial(self._probe, path), loop, answer), daemon=True
                )
                work.start()
        pending = {path: self._pending[path] for path in paths}
        if pending:
            await self._wait(list(pending.values()))
        found: Dict[Any, Any] = {}
        for path, answer in pending.items():
            found[path] = answer.result() if answer.done() else None
            if answer.done():
                self._pending.pop(path, None)
        return found

    async def _wait(self, answers: Sequence[asyncio.Future[Any]]) -> None:
        """Wait for the answers for `answer_s`, or longer while the machine is slow."""
        until = time.monotonic() + LONGEST_S
        while True:
            _, late = await asyncio.wait(answers, timeout=self._answer_s)
            if not late or time.monotonic() > until or await self._is_machine_fast():
                return

    async def _is_machine_fast(self) -> bool:
        """Return whether a child process starts and ends within CONTROL_S."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        work = threading.Thread(target=self._run, args=(self._control, loop, answer), daemon=True)
        work.start()
        await asyncio.wait([answer], timeout=CONTROL_S)
        return answer.done()

    def waiting(self, of: Callable[[Any], bool]) -> List[asyncio.Future[Any]]:
        """Return the pending answers for the paths that satisfy `of`."""
        return [answer for path, answer in self._pending.items() if not answer.done() and of(path)]

    def _run(
        self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any]
    ) -> None:
        try:
            result = work()
        except OSError as error:
            result = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, answer, result)


def start_child() -> None:
    """Run a process that does nothing."""
    true = shutil.which("true", path=SYSTEM_PATH) or "true"
    subprocess.run(
        [true], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={OWN: "1"}, cwd="/", check=False
    )


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)
