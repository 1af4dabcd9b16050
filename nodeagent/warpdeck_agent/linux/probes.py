"""Queries to file systems that may never answer, because a server hangs.

A process that queries a hanging mount cannot be killed by any signal. So a child process asks, and can be
abandoned. If a thread of the agent asked, a killed agent could not exit and would keep its lock, and no other
agent could start. A hanging path is not queried again before it has answered, so there is at most one child
for each path, and a thread that waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Dict, Hashable, List, Sequence

ANSWER_S = 10.0
"""A mount that takes longer, in seconds, counts as hanging."""

Probe = Callable[[Any], Any]


class Probes:
    """Asks one question about any path, or any other hashable key.

    `probe` may block forever, and raises OSError.
    """

    def __init__(self, probe: Probe, *, answer_s: float = ANSWER_S) -> None:
        self._probe = probe
        self._answer_s = answer_s
        self._pending: Dict[Hashable, asyncio.Future[Any]] = {}

    async def ask(self, paths: Sequence[Hashable]) -> Dict[Any, Any]:
        """Return, for each path, the result of the probe, its error, or None if it has not answered yet."""
        loop = asyncio.get_running_loop()
        for path in paths:
            if path not in self._pending:
                answer = self._pending[path] = loop.create_future()
                work = threading.Thread(target=self._run_probe, args=(path, loop, answer), daemon=True)
                work.start()
        pending = {path: self._pending[path] for path in paths}
        if pending:
            await asyncio.wait(pending.values(), timeout=self._answer_s)
        found: Dict[Any, Any] = {}
        for path, answer in pending.items():
            found[path] = answer.result() if answer.done() else None
            if answer.done():
                self._pending.pop(path, None)
        return found

    def waiting(self, of: Callable[[Any], bool]) -> List[asyncio.Future[Any]]:
        """Return the pending answers for the paths that satisfy `of`."""
        return [answer for path, answer in self._pending.items() if not answer.done() and of(path)]

    def _run_probe(
        self, path: Hashable, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any]
    ) -> None:
        try:
            result = self._probe(path)
        except OSError as error:
            result = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, answer, result)


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)
