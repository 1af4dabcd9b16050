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
        self._asked: Dict[Hashable, asyncio.Future[Any]] = {}

    async def ask(self, paths: Sequence[Hashable]) -> Dict[Any, Any]:
        """Return, for each path, the result of the probe, its error, or None if it has not answered yet."""
        loop = asyncio.get_running_loop()
        for path in paths:
            if path not in self._asked:
                answer = self._asked[path] = loop.create_future()
                work = threading.Thread(target=self._look_at, args=(path, loop, answer), daemon=True)
                work.start()
        asked = {path: self._asked[path] for path in paths}
        if asked:
            await asyncio.wait(asked.values(), timeout=self._answer_s)
        found: Dict[Any, Any] = {}
        for path, answer in asked.items():
            found[path] = answer.result() if answer.done() else None
            if answer.done():
                self._asked.pop(path, None)
        return found

    def waiting(self, of: Callable[[Any], bool]) -> List[asyncio.Future[Any]]:
        """Return the pending answers for the paths that satisfy `of`."""
        return [answer for path, answer in self._asked.items() if not answer.done() and of(path)]

    def _look_at(self, path: Hashable, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any]) -> None:
        try:
            said = self._probe(path)
        except OSError as error:
            said = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, answer, said)


def _settle(answer: asyncio.Future[Any], said: Any) -> None:
    if not answer.done():
        answer.set_result(said)
