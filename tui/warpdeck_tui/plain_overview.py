"""The overview as plain text: the same panels, one after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence

from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.protocol import requests
from warpdeck.protocol.node_rows import NodeEventRow
from warpdeck_tui.viewmodels.nodes.timeline import Range
from warpdeck_tui.viewmodels.overview import capacity, failures, my_jobs, trouble, unused, waiting
from warpdeck_tui.viewmodels.overview.links import PanelRows
from warpdeck_tui.viewmodels.site.cluster_totals import NOTHING
from warpdeck_tui.widgets.columns import Column

Panels = list[tuple[Sequence[Column], PanelRows]]


async def overview(client: AsyncioClient, user: str | None) -> tuple[list[str], Panels]:
    """Return the lines about the use of the cluster, and the panels with their columns. Raises UserError."""
    now, refused = time.time(), client.welcome.impossible
    jobs = (await client.ask(requests.Jobs())).jobs
    nodes = (await client.ask(requests.Nodes())).nodes
    totals = NOTHING
    for node in nodes:
        totals = totals.changed(None, node)
    shown, events = Range(now - capacity.DAY_S, now), list[NodeEventRow]()
    use: capacity.Capacity | None = None
    if "timeline" not in refused:
        asked = requests.NodeTimeline(since=shown.since, until=shown.until, steps=capacity.STEPS)
        told = await client.ask(asked)
        events = told.events
        use = capacity.of_timeline(told) if totals.gpus else None
    if use is None:
        past = None if "past" in refused else (await client.ask(requests.Past(query=FinishedQuery()))).jobs
        known_from = capacity.known_from(past, now)
        use = capacity.of_jobs([*(past or ()), *jobs], shown, totals, known_from=known_from)
    failed = None
    if "past" not in refused:
        failed = (await client.ask(requests.Past(query=failures.failures_query(user)))).jobs
    lines = ["".join(cell.text for cell in capacity.title(totals)), *capacity.in_words(use)]
    has_gpus = bool(totals.gpus)
    return lines, [
        (my_jobs.COLUMNS, my_jobs.my_jobs(jobs, user, now)),
        (waiting.COLUMNS, waiting.waiting(jobs, now)),
        (failures.COLUMNS, failures.failures(failed, user, now, problem=refused.get("past", ""))),
        (unused.COLUMNS, unused.unused_gpus(jobs, nodes, now))
        if has_gpus
        else (unused.SESSION_COLUMNS, unused.unused_sessions(jobs, now)),
        (trouble.COLUMNS, trouble.nodes_in_trouble(nodes, events, now)),
    ]
