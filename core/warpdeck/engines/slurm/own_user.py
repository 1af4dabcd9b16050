"""Refuses the requests of other users, because a gateway acts with the rights of its own user."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.ports.caller import Principal


def require_own_user(who: Principal, uid: int) -> None:
    """Raise UserError unless the caller is the user of the gateway."""
    if who.uid != uid:
        raise UserError(
            f"this gateway to Slurm acts for its own user only, not for {who.user}",
            "start a gateway of your own with `warpdeck --engine slurm`",
            code="not_owner",
        )
