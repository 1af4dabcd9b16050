"""The rule that a gateway runs processes of its own user only."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.ports.caller import Caller


def refuse_others(caller: Caller, *, uid: int) -> None:
    """Raise UserError unless the caller is the user of this gateway. `uid` is the user's."""
    if caller.who.uid != uid:
        raise UserError(
            f"this gateway to Slurm runs commands of its own user only, not of {caller.who.user}",
            "Start your own with `warpdeck --engine slurm`.",
            code="denied",
        )
