"""The handlers of the requests of clients, in one table.

A handler returns the result as a dictionary or a struct. None means that it has sent its answer itself, as streams do.
Most requests are answered by a method of the engine and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from warpdeck._version import __version__
from warpdeck.base.chunking import LazyRows, Rows
from warpdeck.model import Job, JobId
from warpdeck.ports.caller import ClientIdentity
from warpdeck.ports.engine import Engine, JobOrder
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results

from . import administration, commands, end_subscriptions, health_check, streams
from .connection import Connection
from .jobs import allocations, runs, sessions
from .paging import JOB_PAGE_ROWS, paged
from .queries import node_list, past_nodes
from .steps import step_requests
from .tunnels import tunnel_requests

Handler = Callable[[Connection, Any], Awaitable[Any]]
Method = Callable[[ClientIdentity, Any], Awaitable[Any]]
"""A method of the engine that answers a request."""
JobHandler = Callable[[Connection, Any, Job], Awaitable[None]]


class Handlers:
    """The handler of each kind of request, for one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        direct: dict[type, Method] = _answered_by(engine)
        self._handlers: dict[type, Handler] = {
            **{kind: _direct(method) for kind, method in direct.items()},
            **_answered_in_pages(engine),
            **_STREAMS,
            **_OTHERS,
        }

    async def handle(self, connection: Connection, message: Any) -> Any:
        """Return the answer to a request. Raises UserError."""
        handler = self._handlers.get(type(message), administration.answer)
        return await handler(connection, message)


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
        # History
        ask.Past: engine.history.past,
        ask.PastCosts: engine.history.costs,
        ask.Events: engine.history.events,
        ask.Curves: engine.history.curves,
    }


def _answered_in_pages(engine: Engine) -> dict[type, Handler]:
    """Return the handlers of the requests whose answers are long lists."""

    async def priorities(connection: Connection, message: ask.Priorities) -> dict[str, Any]:
        found = await engine.accounting.priorities(connection.client, message)
        page = await paged(connection, message.id, "jobs", found.jobs, page_rows=JOB_PAGE_ROWS)
        return {"weights": found.weights, "queue_order": found.queue_order, **page}

    async def records(connection: Connection, message: ask.Records) -> dict[str, Any]:
        """Send each page as soon as it is built. Neither a long history nor a page of it is kept."""
        async with contextlib.aclosing(engine.history.records(connection.client, message)) as pages:
            while True:
                async with connection.page():
                    page = await anext(pages, None)
                    if page is None or page.is_last:
                        return {"jobs": page.rows if page else []}
                    connection.send({"t": "rows", "id": message.id, "part": {"jobs": page.rows}})

    return {
        ask.Jobs: _rows(engine.jobs.rows, "jobs", JOB_PAGE_ROWS),
        ask.Steps: _rows(engine.jobs.steps, "steps", JOB_PAGE_ROWS),
        ask.Priorities: priorities,
        ask.Records: records,
    }


def _direct(method: Method) -> Handler:
    async def answer(connection: Connection, message: Any) -> Any:
        return await method(connection.client, message)

    return answer


def _rows(method: Callable[[ClientIdentity, Any], Awaitable[Rows[Any]]], key: str, page_rows: int) -> Handler:
    """Return a handler that sends the rows that a method of the engine returns, in pages."""

    async def answer(connection: Connection, message: Any) -> dict[str, Any]:
        rows = await method(connection.client, message)
        return await paged(connection, message.id, key, rows, page_rows=page_rows)

    return answer


async def _status(connection: Connection, message: ask.Status) -> results.Status:
    server = connection.server
    site = server.engine.site.summary()
    return results.Status(
        pid=os.getpid(),
        host=socket.gethostname(),
        home=server.paths.home,
        version=__version__,
        uptime_s=server.controller.clock() - server.started_at,
        user=connection.who.user,
        jobs=site.jobs,
        nodes=site.nodes,
        log=server.paths.log,
        clients=len(server.connections),
        unreadable=site.unreadable,
    )


async def _settle(connection: Connection, message: ask.Settle) -> Any:
    return await end_subscriptions.settle(connection, JobId(message.job))


async def _nodes(connection: Connection, message: ask.Nodes) -> dict[str, Any]:
    nodes, show = node_list.shown(connection.server.controller, message.name, facts=message.facts)
    rows = LazyRows(nodes, show)
    return await paged(connection, message.id, "nodes", rows, page_rows=ask.NODE_PAGE_ROWS)


async def _nodes_at(connection: Connection, message: ask.NodesAt) -> dict[str, Any]:
    then = await past_nodes.look(connection.server, message, uid=connection.who.uid)
    rows = LazyRows(then, past_nodes.rows)
    return await paged(connection, message.id, "nodes", rows, page_rows=ask.NODE_PAGE_ROWS)


async def _node_check(connection: Connection, message: ask.NodeCheck) -> Any:
    return await health_check.answer(connection.server.controller, message, anew=connection.who.admin)


async def _attach(connection: Connection, message: ask.Attach) -> None:
    lookup = connection.server.lookup
    find = lookup.watched if message.watch else lookup.visible
    await streams.attach(connection, message, await find(connection.who, message.job))


async def _forwards(connection: Connection, message: ask.Forwards) -> results.Forwards:
    return results.Forwards(forwards=connection.server.forwards.rows(connection.who))


async def _forward_page(connection: Connection, message: ask.ForwardPage) -> results.ForwardPage:
    return results.ForwardPage(page=connection.server.forwards.page(connection.who, message.number))


async def _forward_end(connection: Connection, message: ask.ForwardEnd) -> results.Result:
    connection.server.forwards.end(connection.who, message.number)
    return results.Result()


def _on_visible_job(handler: JobHandler) -> Handler:
    """Return a handler that first finds the job of the request, which the caller must be allowed to see."""

    async def answer(connection: Connection, message: Any) -> None:
        job = await connection.server.lookup.visible(connection.who, message.job)
        await handler(connection, message, job)

    return answer


_OTHERS: dict[type, Handler] = {
    ask.Status: _status,
    ask.Session: sessions.open_session,
    # Nodes
    ask.Nodes: _nodes,
    ask.NodesAt: _nodes_at,
    ask.NodeCheck: _node_check,
    # Streams
    ask.Settle: _settle,
    ask.Forwards: _forwards,
    ask.ForwardPage: _forward_page,
    ask.ForwardEnd: _forward_end,
}
"""The handlers that are not a method of the engine. All requests without a handler are for admins only."""
_STREAMS: dict[type, Handler] = {
    ask.PutTree: streams.receive_tree,
    ask.Run: runs.run,
    ask.Srun: step_requests.run,
    ask.SrunAttach: step_requests.attach,
    ask.Salloc: allocations.hold,
    ask.SallocAttach: allocations.attach,
    ask.Command: commands.run,
    ask.Subscribe: streams.subscribe,
    ask.AwaitEnds: end_subscriptions.tell_ends,
    ask.Log: _on_visible_job(streams.send_log),
    ask.Attach: _attach,
    ask.Tunnel: _on_visible_job(tunnel_requests.open_tunnel),
    ask.Forward: _on_visible_job(tunnel_requests.keep_forward),
}
"""The handlers of the requests that open a stream."""
