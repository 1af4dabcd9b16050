"""The time limit of a launch and its warning.

The agent enforces both, with or without a controller. Time in which the launch is suspended does not count.
All times are seconds since the boot of the node (see `uptime_s`), because the node's date may be set at any
moment. The data for a restarted agent is in the launch's folder. `stopped` holds the unix time since which it is
suspended (0: it is not), the duration of earlier suspensions, and the first time since the boot. `warned` says
that the warning was sent. `limit` is a limit that replaced the first one (0: none). Agents of earlier versions
stored unix times only.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import Callable, List, Optional

from warpdeck_agent.linux.uptime import uptime_at, uptime_s
from warpdeck_agent.storage.spool import LaunchFolder, Meta


class TimeLimit:
    """The time limit of one launch. `warn` and `over` are called once each, from the event loop."""

    def __init__(
        self, folder: LaunchFolder, meta: Meta, *, warn: Callable[[], None], over: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._meta = meta
        self._warn = warn
        self._over = over
        self._timers: List[asyncio.TimerHandle] = []
        fields = folder.read("stopped").split()
        self._begun_at = meta.started_at_uptime_s or uptime_at(meta.started_at)
        self._stopped_at = float(fields[2]) if len(fields) > 2 else 0.0
        if len(fields) == 2 and float(fields[0]):
            self._stopped_at = uptime_at(float(fields[0]))
        self._stopped_s = float(fields[1]) if fields else 0.0
        changed = folder.read("limit")
        self.limit_s: Optional[float] = (float(changed) or None) if changed else meta.time_limit_s

    @property
    def suspended(self) -> bool:
        return self._stopped_at > 0

    def run(self) -> None:
        """Start the timers."""
        self.end()
        left_s = self.left_s()
        if left_s is None:
            return
        self._after(left_s, self._over)
        if self._meta.warn_signal and not self._folder.read("warned"):
            self._after(left_s - self._meta.warn_before_s, self._warn_now)

    def left_s(self) -> Optional[float]:
        """Return the seconds until the limit, below 0 after it. None if no limit runs now."""
        if self.limit_s is None or self.suspended:
            return None
        return self._left_of(self.limit_s)

    def change(self, limit_s: Optional[float]) -> None:
        """Set another limit, counted from the same start.

        If the remaining time exceeds the time of the warning, the warning is sent again.
        """
        self.limit_s = limit_s
        with contextlib.suppress(OSError):  # on a full disk, the controller tells a restarted agent again
            self._folder.write("limit", repr(limit_s or 0.0))
        left_s = math.inf if limit_s is None else self._left_of(limit_s)
        if left_s > self._meta.warn_before_s and self._folder.read("warned"):
            with contextlib.suppress(OSError):
                self._folder.write("warned", "")
        self.run()

    def suspend(self) -> None:
        """Stop the clock. No effect if it is stopped already."""
        if not self.suspended:
            self._stopped_at = uptime_s()
            self._keep()
            self.end()

    def resume(self) -> None:
        """Continue the clock with the remaining time."""
        if self.suspended:
            self._stopped_s += uptime_s() - self._stopped_at
            self._stopped_at = 0.0
            self._keep()
            self.run()

    def end(self) -> None:
        """Cancel the timers."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _left_of(self, limit_s: float) -> float:
        return self._begun_at + self._stopped_s + limit_s - uptime_s()

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(max(0.0, delay_s), act))

    def _warn_now(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk, a later agent warns a second time
            self._folder.write("warned", "1")
        self._warn()

    def _keep(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk, only a restarted agent counts wrongly
            since_unix = time.time() - uptime_s() + self._stopped_at if self.suspended else 0.0
            self._folder.write("stopped", f"{since_unix!r} {self._stopped_s!r} {self._stopped_at!r}")
