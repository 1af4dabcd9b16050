"""The start of a controller, as the controller tells it to agents, and the refusal of an outdated start.

Each start of a controller has an epoch, which is higher than every epoch that the controller knows, and a random
instance. An agent obeys the highest epoch that it has seen. Of two controllers with the same identity, such as a
copied home that was started beside its original, at most one is therefore obeyed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ControllerStart:
    """One start of a controller. A controller without epochs, which is an older version, has the epoch 0."""

    epoch: int = 0
    instance: str = ""
    """Random name of this start."""
    host: str = ""
    pid: int = 0
    started_unix: float = 0.0
    seal: str = ""
    """Proof that the controller knows its site's secret. The agent stores it and does not verify it."""


@dataclass(frozen=True)
class Refused:
    """The answer to a Hello of a controller that the agent does not obey, instead of Welcome."""

    holder: ControllerStart
    """The start that the agent obeys."""
    error: str = ""
    t: Literal["refused"] = "refused"
