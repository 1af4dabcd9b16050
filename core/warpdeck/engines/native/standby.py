"""The standby of the controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from warpdeck.base.errors import UserError
from warpdeck.ports.caller import Caller, require_admin
from warpdeck.ports.engine import Progress
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.site_rows import StandbyMode, StandbyRow


class StandbyKeeper(Protocol):
    """The part of the controller's process that keeps a standby up to date."""

    def row(self) -> StandbyRow | None: ...
    async def set_up(self, message: ask.StandbySet, progress: Progress) -> StandbyRow:
        """Set up a standby. Raises UserError or RemoteError."""
        ...

    async def remove(self) -> None:
        """Stop copying to the standby. Raises UserError if there is none."""
        ...


def standby_problem(row: StandbyRow) -> str:
    """Return the sentence that warns of a standby which lacks requests that were answered, or ""."""
    if not row.problem:
        return ""
    degraded = " Requests are answered without it." if row.mode == StandbyMode.SYNC and not row.waits else ""
    return f"standby {row.target}: {row.problem}.{degraded} See `warpdeck standby status`."


@dataclass(frozen=True, kw_only=True)
class NativeStandby:
    """The `EngineStandby` of the controller. `keeper` is None in a simulation, which has no standby."""

    keeper: StandbyKeeper | None = None

    async def look(self, caller: Caller, message: ask.Standby) -> results.StandbyInfo:
        return results.StandbyInfo(standby=self.keeper.row() if self.keeper else None)

    async def set_up(
        self, caller: Caller, message: ask.StandbySet, progress: Progress
    ) -> results.StandbyInfo:
        require_admin(caller.who)
        if self.keeper is None:
            raise UserError("a simulated cluster has no standby", "use the controller of a real site")
        return results.StandbyInfo(standby=await self.keeper.set_up(message, progress))

    async def remove(self, caller: Caller, message: ask.StandbyRemove) -> results.Result:
        require_admin(caller.who)
        if self.keeper is None:
            raise UserError("a simulated cluster has no standby")
        await self.keeper.remove()
        return results.Result()
