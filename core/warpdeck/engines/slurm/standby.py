"""Refuses standbys: slurmctld has its own backup."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import UNSUPPORTED, Action, Progress
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

from .capabilities import IMPOSSIBLE


class SlurmStandby:
    """The `EngineStandby` of a gateway."""

    async def look(self, caller: Caller, message: ask.Standby) -> results.StandbyInfo:
        raise UserError(IMPOSSIBLE[Action.STANDBY], code=UNSUPPORTED)

    async def set_up(
        self, caller: Caller, message: ask.StandbySet, progress: Progress
    ) -> results.StandbyInfo:
        raise UserError(IMPOSSIBLE[Action.STANDBY_SET], code=UNSUPPORTED)

    async def remove(self, caller: Caller, message: ask.StandbyRemove) -> results.Result:
        raise UserError(IMPOSSIBLE[Action.STANDBY_REMOVE], code=UNSUPPORTED)
