"""Measurements over time, which Slurm does not keep. The totals of an ended job are in its row."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.capabilities import IMPOSSIBLE
from warpdeck.ports.engine import UNSUPPORTED, Action
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import UsageCurves


class NoCurves:
    """Refuses requests for curves."""

    async def curves(self, message: ask.Curves) -> UsageCurves:
        raise UserError(IMPOSSIBLE[Action.CURVES], code=UNSUPPORTED)
