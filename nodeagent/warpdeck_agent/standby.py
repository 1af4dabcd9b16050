"""The launches that stand ready to begin, each in the place of one that still runs.

What a launch needs costs more time than a short job runs, so the next in each place is made ready meanwhile: record, room,
order, and a shell of its own at the gate. Between the end of one and the begin of the next lies no more than a word. In memory
alone: what an agent leaves that is killed goes as the rests of any launch that never began.
"""

from __future__ import annotations

import asyncio
from typing import Dict, Optional

from .job import Key
from .launching import Launcher, Made
from .wire.messages import Launch


class Standby:
    """Of one node: one launch for each place at the most."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._making: Dict[Key, asyncio.Task[Optional[Made]]] = {}
        """Those that are made ready, and those that are being undone: under a key there is one at a time."""

    def make_ready(self, launch: Launch, *, before: Key) -> None:
        """Begins to; `before` has the place that it will have."""
        key = (launch.job_id, launch.restarts)
        if key not in self._making:
            work = self._launcher.make_ready(launch, before=before)
            self._making[key] = asyncio.get_running_loop().create_task(work)

    async def take(self, key: Key) -> Optional[Made]:
        """The launch as it was made ready, to begin now; None if it was not. Nothing else of it is left then."""
        making = self._making.pop(key, None)
        return None if making is None else await making

    def drop(self, key: Key) -> None:
        """It will not begin."""
        making = self._making.get(key)
        if making is not None:
            self._making[key] = asyncio.get_running_loop().create_task(self._undo(key, making))

    async def close(self) -> None:
        """None of them will."""
        for key in list(self._making):
            self.drop(key)
        await asyncio.gather(*self._making.values())

    async def _undo(self, key: Key, making: asyncio.Task[Optional[Made]]) -> None:
        made = await making
        if made is not None:
            await self._launcher.undo(made)
        self._making.pop(key, None)
