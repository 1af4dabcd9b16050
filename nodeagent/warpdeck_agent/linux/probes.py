"""Questions to file systems that may never be answered, because a server hangs.

Who asks a mount that hangs dies of no signal. So it is a child that asks, and can be left behind: were it a thread of ours, an
agent that is killed could not end and would keep its lock, and none could follow it. What hangs is left alone, and not asked
again before it has come back: so there is one child for each path at most, and a thread that waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Dict, Hashable, List, Sequence

ANSWER_S = 10.0
"""A mount that takes longer hangs."""

Probe = Callable[[Any], Any]


class Probes:
    """Asks one question, of any path, or of anything else that names it. `probe` may block for ever, and raises OSError."""

    def __init__(self, probe: Probe, *, answer_s: float = ANSWER_S) -> None:
        self._probe = probe
        self._answer_s = answer_s
        self._asked: Dict[Hashable, asyncio.Future[Any]] = {}

    async def ask(self, paths: Sequence[Hashable]) -> Dict[Any, Any]:
        """Path -> what the probe said, its error, or None if it has not come back."""
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
        """The answers that have not come, to questions of this kind."""
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
