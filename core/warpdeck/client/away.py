"""Handles the time in which no controller answers: starts a controller, or waits until it is back.

It imports only the standard library, because the command line starts often.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from warpdeck.base.errors import UserError
from warpdeck.base.paths import SLURM, Paths

from .wire_connection import AGAIN_EVERY_S, AGAIN_S, CONTROLLER, GONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _Connection = TypeVar("_Connection")

TOLD_AFTER_S = 1.0
"""Seconds of waiting before the user is told that the client waits for the controller."""


def was_killed(paths: Paths) -> bool:
    """Return whether the gateway of a home was killed, so that its clients may start it again.

    A gateway that was stopped removes its socket. A controller is started again by its administrator or by systemd.
    """
    return paths.engine == SLURM and os.path.exists(paths.socket)


class Starter:
    """Starts the controller of a home between the attempts of a client to connect.

    The attempts end after AGAIN_S, or with the first one if `start` is false.
    """

    def __init__(self, paths: Paths, *, start: bool) -> None:
        self._paths = paths
        self._start = start
        self._until = time.monotonic() + AGAIN_S

    def after(self, error: UserError) -> float:
        """Start the controller after this error, and return the seconds until the next attempt.

        Raises UserError: the error itself if there is no further attempt, or the reason why no controller starts.
        """
        if error.code != GONE or not self._start or time.monotonic() > self._until:
            raise error
        from warpdeck.base.controller_daemon import ensure_running

        return 0.0 if ensure_running(self._paths) else AGAIN_EVERY_S


def wait_until_back(
    connect: Callable[[], _Connection],
    say: Callable[[str], None],
    *,
    patience_s: float = float("inf"),
    daemon: str = CONTROLLER,
) -> _Connection:
    """Connect again after the connection was lost, as soon as the controller is back.

    `connect` raises UserError with the code GONE while the daemon is away. `say` gets remarks for the waiting user,
    in which `daemon` is the name of the process. Raises UserError if an attempt fails for another reason, or the daemon
    stays away longer than `patience_s`.
    """
    begun = time.monotonic()
    told = False
    while True:
        try:
            connection = connect()
        except UserError as error:
            if error.code != GONE or time.monotonic() - begun > patience_s:
                raise
        else:
            if told:
                say(f"the {daemon} is back")
            return connection
        if not told and time.monotonic() - begun > TOLD_AFTER_S:
            say(f"connection to the {daemon} lost; waiting for it")
            told = True
        time.sleep(AGAIN_EVERY_S)
