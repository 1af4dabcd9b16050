"""Facts about the site that are shown at the top of each screen but are not part of the updates."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.protocol import requests
from warpdeck_tui.data.client_state import ClientState, Site
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.viewmodels.site.quota import Quota

LOOK_S = 60.0
"""Seconds between two requests for the user's quota while the app has the focus."""


async def look_at_site(core: Core, board: ClientState) -> None:
    """Request the name of the site and the user's quota. Facts that the scheduler cannot tell are left out."""
    try:
        if not board.site.name:
            name = (await core.ask(requests.Status())).host.partition(".")[0]
            board.site = board.site._replace(name=name)
        board.site = Site(board.site.name, await _quota(core, board))
    except UserError:  # there is no connection, as the line at the top says; the next look asks again
        return


async def _quota(core: Core, board: ClientState) -> Quota | None:
    # The first frame does not need the module.
    from warpdeck_tui.viewmodels.site.quota import quota

    reason = board.scheduler.reason
    if reason("limit_use") or reason("qos"):
        return None
    levels = (await core.ask(requests.QosList())).qos
    shares = [] if reason("shares") else (await core.ask(requests.Shares())).shares
    if not any(level.limits for level in levels) and not any(row.limits or row.holds for row in shares):
        return None
    uses = (await core.ask(requests.LimitUse())).uses
    return quota(board.user, uses=uses, qos=levels, shares=shares)
