"""The handlers of the requests of clients, in one table.

A handler returns the result as a dictionary or a struct. None means that it has sent its answer itself, as streams do.
Most requests are answered by a method of the engine and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from warpdeck._version import __version__
from warpdeck.base.chunking import Rows
from warpdeck.base.errors import UserError
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import UNSUPPORTED, Engine, JobOrder
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

from . import commands, steps, streams, subscriptions, tunnels
from .administration import admin_handlers
from .connection import Connection, Handler
from .direct_handlers import Method, direct
from .paging import AUDIT_PAGE_ROWS, JOB_PAGE_ROWS, paged


class Handlers:
    """The handler of each kind of request, for one engine."""

    def __init__(self, engine: Engine) -> None:
        self._site = engine.site
        self.table: dict[type, Handler] = {
            **{kind: direct(method) for kind, method in _answered_by(engine).items()},
            **_answered_in_pages(engine),
            **admin_handlers(engine),
            ask.Log: streams.from_source(engine.output.log),
            ask.Attach: streams.from_source(engine.output.terminal),
            **_OTHERS,
        }

    async def handle(self, connection: Connection, message: Any) -> Any:
        """Return the answer to a request. Raises UserError."""
        if reason := self._site.capabilities().get(message.__struct_config__.tag):
            raise UserError(reason, code=UNSUPPORTED)
        return await self.table[type(message)](connection, message)


def _answered_by(engine: Engine) -> dict[type, Method]:
    """Return the methods that answer requests without any work of the server."""
    return {
        # The site
        ask.Partitions: engine.site.partitions,
        ask.Reservations: engine.site.reservations,
        ask.Licenses: engine.site.licenses,
        ask.Settings: engine.site.settings,
        ask.PluginOptions: engine.site.plugin_options,
        ask.Diagnosis: engine.site.diagnosis,
        ask.Standby: engine.standby.look,
        # Accounting
        ask.Shares: engine.accounting.shares,
        ask.LimitUse: engine.accounting.limit_use,
        ask.QosList: engine.accounting.qos,
        # Jobs
        ask.JobInfo: engine.jobs.detail,
        ask.JobEnvironment: engine.jobs.environment,
        ask.Forecast: engine.jobs.forecast,
        # Submissions
        ask.Submit: engine.submissions.submit,
        ask.Rerun: engine.submissions.rerun,
        ask.DryRun: engine.submissions.dry_run,
        ask.HaveTree: engine.submissions.find_tree,
        # Orders
        ask.Cancel: engine.orders.cancel,
        **dict.fromkeys(get_args(JobOrder), engine.orders.change),
        ask.CodeRecorded: engine.orders.record_code,
        ask.JobAnnotate: engine.orders.annotate,
        # Nodes
        ask.NodeCheck: engine.nodes.health,
        # Output and processes
        ask.Settle: engine.output.settle,
        ask.Session: engine.sessions.open,
        # History
        ask.Past: engine.history.past,
        ask.PastCosts: engine.history.costs,
        ask.Events: engine.history.events,
        ask.Curves: engine.history.curves,
    }


def _answered_in_pages(engine: Engine) -> dict[type, Handler]:
    """Return the handlers of the requests that are answered with a long list."""

    async def priorities(connection: Connection, message: ask.Priorities) -> dict[str, Any]:
        found = await engine.accounting.priorities(connection.caller, message)
        page = await paged(connection, message.id, "jobs", found.jobs, page_rows=JOB_PAGE_ROWS)
        return {"weights": found.weights, "queue_order": found.queue_order, **page}

    async def records(connection: Connection, message: ask.Records) -> dict[str, Any]:
        """Send each page as soon as it is built. Neither a long history nor a page of it is kept."""
        async with contextlib.aclosing(engine.history.records(connection.caller, message)) as pages:
            while True:
                async with connection.page():
                    page = await anext(pages, None)
                    if page is None or page.is_last:
                        return {"jobs": page.rows if page else []}
                    connection.send({"t": "rows", "id": message.id, "part": {"jobs": page.rows}})

    async def nodes_at(connection: Connection, message: ask.NodesAt) -> dict[str, Any]:
        async with connection.server.looks_back.slot(connection.who.uid):
            rows = await engine.nodes.past(connection.caller, message)
        return await paged(connection, message.id, "nodes", rows, page_rows=ask.NODE_PAGE_ROWS)

    async def timeline(connection: Connection, message: ask.NodeTimeline) -> results.Timeline:
        async with connection.server.looks_back.slot(connection.who.uid):
            return await engine.nodes.timeline(connection.caller, message)

    return {
        ask.NodeTimeline: timeline,
        ask.Jobs: _rows(engine.jobs.rows, "jobs", JOB_PAGE_ROWS),
        ask.Steps: _rows(engine.jobs.steps, "steps", JOB_PAGE_ROWS),
        ask.Nodes: _rows(engine.nodes.rows, "nodes", ask.NODE_PAGE_ROWS),
        ask.NodesAt: nodes_at,
        ask.Priorities: priorities,
        ask.Records: records,
    }


def _rows(method: Callable[[Caller, Any], Awaitable[Rows[Any]]], key: str, page_rows: int) -> Handler:
    """Return a handler that sends the rows that a method of the engine returns, in pages."""

    async def answer(connection: Connection, message: Any) -> dict[str, Any]:
        rows = await method(connection.caller, message)
        return await paged(connection, message.id, key, rows, page_rows=page_rows)

    return answer


async def _status(connection: Connection, message: ask.Status) -> results.ControllerStatus:
    server = connection.server
    site = server.engine.site.summary()
    return results.ControllerStatus(
        pid=os.getpid(),
        host=socket.gethostname(),
        home=server.paths.home,
        version=__version__,
        uptime_s=server.clock() - server.started_at,
        user=connection.who.user,
        jobs=site.jobs,
        nodes=site.nodes,
        log=server.paths.log,
        clients=len(server.connections),
        unreadable=site.unreadable,
        epoch=site.epoch,
        fenced=site.fenced,
        recovery=site.recovery,
        engine=server.engine.site.about(),
        audit_problem=server.audit.problem,
        standby=site.standby,
        quota=server.engine.site.quota(connection.who),
    )


async def _audit(connection: Connection, message: ask.Audit) -> dict[str, Any]:
    server = connection.server
    async with server.audit_searches.slot(connection.who.uid):
        found = await asyncio.to_thread(server.audit.entries, connection.caller, message)
    page = await paged(connection, message.id, "entries", found.entries, page_rows=AUDIT_PAGE_ROWS)
    return {"problem": found.problem, **page}


async def _forwards(connection: Connection, message: ask.Forwards) -> results.ForwardList:
    return results.ForwardList(forwards=connection.server.forwards.rows(connection.who))


async def _forward_page(connection: Connection, message: ask.ForwardPage) -> results.ForwardedPage:
    return results.ForwardedPage(page=connection.server.forwards.page(connection.who, message.number))


async def _forward_end(connection: Connection, message: ask.ForwardEnd) -> results.Result:
    connection.server.forwards.end(connection.who, message.number)
    return results.Result()


_OTHERS: dict[type, Handler] = {
    ask.Status: _status,
    ask.Audit: _audit,
    ask.Forwards: _forwards,
    ask.ForwardPage: _forward_page,
    ask.ForwardEnd: _forward_end,
    # Streams
    ask.PutTree: streams.receive_tree,
    ask.Run: streams.run,
    ask.Srun: steps.srun,
    ask.SrunAttach: steps.srun_attach,
    ask.Salloc: steps.salloc,
    ask.SallocAttach: steps.salloc_attach,
    ask.Command: commands.run,
    ask.Subscribe: subscriptions.subscribe,
    ask.AwaitEnds: subscriptions.tell_ends,
    ask.Tunnel: tunnels.open_tunnel,
    ask.Forward: tunnels.keep_forward,
}
"""The handlers with work of their own."""
