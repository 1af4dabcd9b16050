"""The time limit of a launch: when its warning is due, and when it is over. The agent keeps it, with or without a controller.

Time that the launch spends suspended does not count. What a restarted agent must know is in the launch's folder: `stopped`
holds since when it is suspended (0: it is not) and for how long it was before, `warned` that the warning was sent, `limit`
another limit than that of its begin (0: none).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import Callable, List, Optional

from warpdeck_agent.storage.spool import LaunchFolder, Meta


class TimeLimit:
    """Of one launch. `warn` and `over` are called once each, from the event loop."""

    def __init__(
        self, folder: LaunchFolder, meta: Meta, *, warn: Callable[[], None], over: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._meta = meta
        self._warn = warn
        self._over = over
        self._timers: List[asyncio.TimerHandle] = []
        words = folder.read("stopped").split()
        self._stopped_at = float(words[0]) if words else 0.0
        self._stopped_s = float(words[1]) if words else 0.0
        changed = folder.read("limit")
        self.limit_s: Optional[float] = (float(changed) or None) if changed else meta.time_limit_s

    @property
    def suspended(self) -> bool:
        return self._stopped_at > 0

    def run(self) -> None:
        """Lets the time pass."""
        self.end()
        if self.limit_s is None or self.suspended:
            return
        left_s = self._meta.started_at + self._stopped_s + self.limit_s - time.time()
        self._after(left_s, self._over)
        if self._meta.warn_signal and not self._folder.read("warned"):
            self._after(left_s - self._meta.warn_before_s, self._warn_now)

    def change(self, limit_s: Optional[float]) -> None:
        """Another limit, from the same start on. If more is left than the warning needs, it is warned again."""
        self.limit_s = limit_s
        with contextlib.suppress(OSError):  # on a full disk the controller tells a restarted agent again
            self._folder.write("limit", repr(limit_s or 0.0))
        left_s = (
            math.inf if limit_s is None else self._meta.started_at + self._stopped_s + limit_s - time.time()
        )
        if left_s > self._meta.warn_before_s and self._folder.read("warned"):
            with contextlib.suppress(OSError):
                self._folder.write("warned", "")
        self.run()

    def suspend(self) -> None:
        """Time stands still. Asked for again, it changes nothing."""
        if not self.suspended:
            self._stopped_at = time.time()
            self._keep()
            self.end()

    def resume(self) -> None:
        """Time goes on, with as much left as there was."""
        if self.suspended:
            self._stopped_s += time.time() - self._stopped_at
            self._stopped_at = 0.0
            self._keep()
            self.run()

    def end(self) -> None:
        """Nothing is called any more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(max(0.0, delay_s), act))

    def _warn_now(self) -> None:
        with contextlib.suppress(
            OSError
        ):  # on a full disk a later agent warns again: better twice than never
            self._folder.write("warned", "1")
        self._warn()

    def _keep(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk only an agent that starts anew counts wrongly
            self._folder.write("stopped", f"{self._stopped_at!r} {self._stopped_s!r}")
