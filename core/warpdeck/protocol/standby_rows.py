"""The standby of a controller as clients see it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class StandbyMode(StrEnum):
    """When a request is answered: after the standby has it on disk, too, or after the controller has it."""

    SYNC = "sync"
    ASYNC = "async"


class StandbyState(StrEnum):
    """The connection to the standby, and the state of its copy."""

    CONNECTING = "connecting"
    COPYING = "copying"
    """It gets a full copy of the database."""
    FOLLOWING = "following"
    LOST = "lost"


class StandbyRow(msgspec.Struct, frozen=True, kw_only=True):
    """The standby, and how far its copy is behind."""

    target: str
    host: str = ""
    home: str
    mode: str
    keys: bool = False
    """Whether the private keys for the nodes are copied, too."""
    state: str = StandbyState.CONNECTING
    waits: bool = False
    """Whether requests are answered only after the standby has them. In the mode sync this is false while the standby does
    not answer in time.
    """
    behind_batches: int = 0
    behind_s: float = 0.0
    """Age of the oldest batch that the standby lacks."""
    problem: str = ""
    """The reason why the standby does not follow, or "". """
    command: str = ""
    """The command with which a person runs warpdeck on the standby."""
