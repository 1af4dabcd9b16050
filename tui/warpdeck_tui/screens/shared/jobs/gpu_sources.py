"""Requests the usage of a job's GPUs over its time."""

from __future__ import annotations

import time

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.job_page.gpus import Sources, during
from warpdeck_tui.viewmodels.nodes.node_page import SPANS

MAX_NODES = 8
"""Largest number of nodes that are asked for the curves of single GPUs."""
KEPT_S = (600.0, 7200.0)
"""Seconds for which measurements are kept with the first and the second step of SPANS."""


async def gpu_sources(deck: Deck, detail: JobDetail) -> Sources:
    """Return the curves of the job's nodes and, while it runs, those of its GPUs."""
    row, scheduler = detail.row, deck.board.scheduler
    if told := scheduler.reason("curves"):
        return Sources({}, told=told)
    try:
        curves = await deck.core.curves(str(row.id))
    except UserError as error:
        return Sources({}, told=error.message)
    found: dict[tuple[str, int], list[float | None]] = {}
    begin = row.start or 0.0
    if row.end is None:
        ran = time.time() - begin
        step = SPANS[sum(ran > kept for kept in KEPT_S)][0]
        held = {(gpu.node, gpu.index) for gpu in detail.gpus}
        for node in sorted({gpu.node for gpu in detail.gpus})[:MAX_NODES]:
            try:
                told_curves = (await deck.core.node_curves(node, step_s=step)).curves
            except UserError:
                continue  # the GPUs of this node are shown without curves
            for curve in told_curves:
                if curve.gpu is not None and (node, curve.gpu) in held:
                    found[node, curve.gpu] = during(curve, begin=begin, end=time.time())
    return Sources({}, curves, found)
