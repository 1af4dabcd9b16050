"""Whether this controller may change its site: its start, and the start that has fenced it.

Two controllers with the same identity exist if a home was copied and both were started, or if a standby has taken
over. Each start has an epoch, and agents obey the highest epoch (`warpdeck_agent.wire.epochs`). The rules are:

- A start takes the epoch after the highest one that the database names. It is committed before the first agent is
  contacted.
- After its start, a controller starts no job until each node has answered or failed to answer, for at most CLAIM_S.
  Of two controllers that are started at the same time, none therefore starts a job before an agent has refused it.
- A controller that one agent refuses is fenced. The fence is durable. A fenced controller has no links to agents,
  plans nothing, and refuses requests that change something. It begins no new epoch when it is started again.
- `warpdeck takeover` begins a start with an epoch above all that are known, and ends the fence. A person decides.

The seal of a start proves that a controller of this site made it. Without a valid seal, a refusal fences nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from warpdeck.base.site_seal import SiteSeal
from warpdeck_agent.wire.epochs import ControllerStart

UNSEALED = SiteSeal("")
TAKEOVER = "warpdeck takeover"
CLAIM_S = 15.0
"""Maximum number of seconds for which a new start waits for the first answers of its nodes."""


@dataclasses.dataclass(frozen=True)
class SiteIdentity:
    """The identity that a controller shares with its standby and with copies of its home."""

    controller_id: str
    seal: SiteSeal = UNSEALED

    def sealed(self, start: ControllerStart) -> ControllerStart:
        """Return the start with its seal."""
        return dataclasses.replace(start, seal=self.seal.sign(*self._parts(start)))

    def is_genuine(self, start: ControllerStart) -> bool:
        """Return whether a controller of this site made the start."""
        return self.seal.is_valid(start.seal, *self._parts(start))

    def _parts(self, start: ControllerStart) -> tuple[object, ...]:
        instance, since = start.instance, repr(start.started_unix)
        return "start", self.controller_id, start.epoch, instance, start.host, start.pid, since


@dataclasses.dataclass(frozen=True)
class StartMaker:
    """Makes the starts of this process."""

    identity: SiteIdentity
    host: str
    pid: int
    clock: Callable[[], float]
    new_instance: Callable[[], str]
    """Returns a random name."""

    def next(self, known: ControllerStart, fenced_by: ControllerStart | None) -> ControllerStart:
        """Return a start with an epoch above the epochs of `known` and `fenced_by`."""
        highest = max(known.epoch, fenced_by.epoch if fenced_by is not None else 0)
        start = ControllerStart(
            epoch=highest + 1,
            instance=self.new_instance(),
            host=self.host,
            pid=self.pid,
            started_unix=self.clock(),
        )
        return self.identity.sealed(start)


def supersedes(holder: ControllerStart, own: ControllerStart) -> bool:
    """Return whether an agent that obeys `holder` is right to refuse `own`."""
    return holder.epoch > own.epoch or (holder.epoch == own.epoch and holder.instance != own.instance)


def fenced_sentence(own: ControllerStart, holder: ControllerStart) -> str:
    """Return why the controller is fenced, and the next step."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.started_unix))
    return (
        f"This controller is fenced: its nodes obey the controller on {holder.host} (pid {holder.pid}, started {since}, "
        f"epoch {holder.epoch}; this one has epoch {own.epoch}). Use that one, or stop it and run `{TAKEOVER}` here."
    )
