"""The handlers of the requests of clients, in one table.

A handler returns the result as a dictionary or a struct. None means that it has sent its answer itself, as streams do.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import msgspec

from warpdeck._version import __version__
from warpdeck.controller.presenters.job_columns import job_detail, row_maker
from warpdeck.controller.presenters.step_rows import live_steps, step_rows
from warpdeck.model import Job, JobId
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobDetail, JobVariables
from warpdeck.protocol.site_rows import ForecastRow

from . import administration, commands, end_subscriptions, health_check, streams
from .connection import Connection
from .jobs import allocations, orders, runs, sessions, submissions
from .jobs import annotations as job_annotations
from .jobs.resubmit import variables_of
from .paging import JOB_PAGE_ROWS, paged
from .queries import curves, history, node_list, past_nodes, policy_queries
from .queries.job_lookup import find_job, selected_jobs, visible_job, watched_job
from .selection import Selection
from .steps import step_requests
from .tunnels import tunnel_requests

MOST_UNREADABLE = 20
"""Maximum number of unreadable database rows that `status` lists."""

Handler = Callable[[Connection, Any], Awaitable[Any]]
JobHandler = Callable[[Connection, Any, Job], Awaitable[None]]


async def handle(connection: Connection, message: Any) -> Any:
    """Return the answer to a request. Raises UserError."""
    return await HANDLERS.get(type(message), administration.answer)(connection, message)


async def _status(connection: Connection, message: ask.Status) -> dict[str, Any]:
    server, state = connection.server, connection.server.controller.state
    counts = {job_state.value: count for job_state, count in state.index.in_state.items() if count}
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "home": server.paths.home,
        "version": __version__,
        "uptime_s": server.controller.clock() - server.started_at,
        "user": connection.who.user,
        "jobs": counts,
        "nodes": len(state.nodes),
        "log": server.paths.log,
        "clients": len(server.connections),
        "unreadable": [row.description for row in state.unreadable[:MOST_UNREADABLE]],
    }


async def _forecast(connection: Connection, message: ask.Forecast) -> ForecastRow:
    controller = connection.server.controller
    return await controller.forecaster.of_job(controller.state, await find_job(connection, message.job))


async def _have_tree(connection: Connection, message: ask.HaveTree) -> dict[str, Any]:
    found = connection.server.trees.find(connection.who.uid, message.tree)
    return {"have": found is not None} | (
        {"sha256": found.sha256, "size_bytes": found.size_bytes} if found else {}
    )


async def _jobs(connection: Connection, message: ask.Jobs) -> dict[str, Any]:
    controller = connection.server.controller
    show = row_maker(controller.state, message.fields, now=controller.clock())
    jobs = await selected_jobs(connection, message)
    return await paged(connection, message.id, "jobs", jobs, show=show, page_rows=JOB_PAGE_ROWS)


async def _environment(connection: Connection, message: ask.JobEnvironment) -> JobVariables:
    return variables_of(await find_job(connection, message.job), who=connection.who)


async def _detail(connection: Connection, message: ask.JobInfo) -> JobDetail:
    job = await visible_job(connection, message.job)
    state, store = connection.server.controller.state, connection.server.controller.store
    journal = await store.journal(job.id)
    if job.id != job.array_job_id:
        journal = [*await store.journal(job.array_job_id), *journal][-200:]
    detail = job_detail(state, job, journal)
    return msgspec.structs.replace(detail, steps=step_rows(job, await store.steps(job.id)))


async def _settle(connection: Connection, message: ask.Settle) -> Any:
    return await end_subscriptions.settle(connection, JobId(message.job))


async def _steps(connection: Connection, message: ask.Steps) -> dict[str, Any]:
    rows = live_steps(connection.server.controller.state, Selection(message))
    return await paged(connection, message.id, "steps", rows, show=list, page_rows=JOB_PAGE_ROWS)


async def _nodes(connection: Connection, message: ask.Nodes) -> dict[str, Any]:
    nodes, show = node_list.shown(connection.server.controller, message.name, facts=message.facts)
    return await paged(connection, message.id, "nodes", nodes, show=show, page_rows=ask.NODE_PAGE_ROWS)


async def _nodes_at(connection: Connection, message: ask.NodesAt) -> dict[str, Any]:
    then, show = await past_nodes.look(connection.server, message, uid=connection.who.uid), past_nodes.rows
    return await paged(connection, message.id, "nodes", then, show=show, page_rows=ask.NODE_PAGE_ROWS)


async def _node_check(connection: Connection, message: ask.NodeCheck) -> Any:
    return await health_check.answer(connection.server.controller, message, anew=connection.who.admin)


async def _priorities(connection: Connection, message: ask.Priorities) -> dict[str, Any]:
    named = [(await find_job(connection, word)).id for word in message.ids]
    answer = await policy_queries.answer(connection.server.controller, message, named)
    page = await paged(connection, message.id, "jobs", answer["jobs"], show=list, page_rows=JOB_PAGE_ROWS)
    return {**answer, **page}


async def _diagnosis(connection: Connection, message: ask.Diagnosis) -> dict[str, Any]:
    return policy_queries.diagnose(
        connection.server.controller, reset=message.reset, admin=connection.who.admin
    )


async def _policy(connection: Connection, message: policy_queries.Question) -> dict[str, Any]:
    return await policy_queries.answer(connection.server.controller, message, ())


async def _attach(connection: Connection, message: ask.Attach) -> None:
    find = watched_job if message.watch else visible_job
    await streams.attach(connection, message, await find(connection, message.job))


async def _forwards(connection: Connection, message: ask.Forwards) -> dict[str, Any]:
    return {"forwards": connection.server.forwards.rows(connection.who)}


async def _forward_page(connection: Connection, message: ask.ForwardPage) -> dict[str, Any]:
    return {"page": connection.server.forwards.page(connection.who, message.number)}


async def _forward_end(connection: Connection, message: ask.ForwardEnd) -> dict[str, Any]:
    connection.server.forwards.end(connection.who, message.number)
    return {}


def _on_visible_job(handler: JobHandler) -> Handler:
    """Return a handler that first finds the job of the request, which the caller must be allowed to see."""

    async def answer(connection: Connection, message: Any) -> None:
        await handler(connection, message, await visible_job(connection, message.job))

    return answer


HANDLERS: dict[type, Handler] = {
    **dict.fromkeys(get_args(policy_queries.Question), _policy),
    ask.Priorities: _priorities,
    ask.Diagnosis: _diagnosis,
    ask.Status: _status,
    # Jobs
    ask.Jobs: _jobs,
    ask.JobInfo: _detail,
    ask.JobEnvironment: _environment,
    ask.Records: history.answer,
    ask.Steps: _steps,
    ask.Forecast: _forecast,
    ask.Curves: curves.answer,
    # Submissions
    ask.Submit: submissions.submit,
    ask.Rerun: submissions.rerun,
    ask.DryRun: submissions.dry_run,
    ask.HaveTree: _have_tree,
    ask.PutTree: streams.receive_tree,
    ask.Run: runs.run,
    ask.Srun: step_requests.run,
    ask.SrunAttach: step_requests.attach,
    ask.Salloc: allocations.hold,
    ask.SallocAttach: allocations.attach,
    ask.Session: sessions.open_session,
    ask.Command: commands.run,
    # Orders
    ask.Cancel: orders.cancel,
    **dict.fromkeys(orders.EVENT_OF, orders.change),
    ask.CodeRecorded: orders.record_code,
    ask.JobAnnotate: job_annotations.answer,
    # Nodes
    ask.Nodes: _nodes,
    ask.NodesAt: _nodes_at,
    ask.NodeCheck: _node_check,
    # Streams
    ask.Subscribe: streams.subscribe,
    ask.AwaitEnds: end_subscriptions.tell_ends,
    ask.Settle: _settle,
    ask.Log: _on_visible_job(streams.send_log),
    ask.Attach: _attach,
    ask.Tunnel: _on_visible_job(tunnel_requests.open_tunnel),
    ask.Forward: _on_visible_job(tunnel_requests.keep_forward),
    ask.Forwards: _forwards,
    ask.ForwardPage: _forward_page,
    ask.ForwardEnd: _forward_end,
}
"""The handler of each kind of request. All other requests are for admins only."""
