"""Tells a waiting user of a gateway that Slurm does not answer, once, and once that it answers again.

It imports only the standard library, because the command line starts often.
"""

from __future__ import annotations

import time

from .wire_connection import CONTROLLER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .blocking_client import SyncClient

LOOK_S = 10.0
"""Seconds between the requests for the gateway's status. They cost Slurm nothing."""


class OutageNotes:
    """The outages that the user was told of. `note` gets the lines."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._is_told = False
        self._looked = time.monotonic()

    def look(self, client: SyncClient) -> None:
        """Ask a gateway from time to time whether Slurm answers, and tell a change. Raises UserError.

        A controller is not asked.
        """
        now = time.monotonic()
        if client.daemon == CONTROLLER or now - self._looked < LOOK_S:
            return
        self._looked = now
        problem = client.call("status")["engine"]["problem"]
        if problem and not self._is_told:
            self._note(f"{problem}; still waiting")
        elif self._is_told and not problem:
            self._note("Slurm answers again")
        self._is_told = bool(problem)
