"""Gives a launch time to save its work before it is ended.

A pause, a preemption, and the time limit of a job that returns to the queue at its limit take this road. Only the
reason and the grace time differ.

1. The processes that handle the job's own signal (--signal) get it; else those that handle TERM. The shell of the
   batch script is stopped if it handles neither, so that it begins no further command.
2. When all of them have exited, or at the end of the grace time, the launch is ended as at any other request: with
   TERM, and with KILL at the end of the grace time, or sooner if the work is saved and the site's grace time of ends
   is shorter. If no process handles a signal, this happens at once.

The file `saving` in the launch's folder holds the end of the grace time. The successor of an agent that was killed
meanwhile continues from it, and does not repeat the signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from typing import Tuple

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.signals import Signals

FILE = "saving"
LOOK_S = 0.2
"""Interval in seconds at which the processes that save their work are looked for."""


def deadline_unix(launch: LocalLaunch) -> float:
    """Return the end of the grace time of a launch that was asked to save its work, or 0."""
    with contextlib.suppress(ValueError):
        return float(launch.folder.read(FILE) or 0.0)
    return 0.0


async def save(launch: LocalLaunch, signals: Signals, *, grace_s: float) -> float:
    """Let the launch save its work for at most `grace_s` seconds. Returns the grace time for its end in seconds."""
    until = deadline_unix(launch)
    end = time.monotonic() + (min(grace_s, until - time.time()) if until else grace_s)
    asked = await _ask(launch, signals, sends=not until)
    if not until:
        with contextlib.suppress(OSError):  # on a full disk, a later agent would send the signal again
            launch.folder.write(FILE, repr(time.time() + grace_s), durable=False)
    had_handlers = bool(asked)
    while asked and launch.phase == "running" and time.monotonic() < end:
        await asyncio.sleep(min(LOOK_S, max(0.0, end - time.monotonic())))
        asked = await signals.running_of(launch, asked)
    left_s = max(0.0, end - time.monotonic())
    return min(left_s, launch.meta.grace_s) if had_handlers else left_s


async def _ask(launch: LocalLaunch, signals: Signals, *, sends: bool) -> Tuple[int, ...]:
    for number in dict.fromkeys((launch.meta.warn_signal or signal.SIGTERM, signal.SIGTERM)):
        asked = await signals.ask_to_save(launch, number, sends=sends)
        if asked:
            return asked
    return ()
