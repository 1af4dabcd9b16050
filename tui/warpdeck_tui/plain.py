"""Prints the app's screens once as plain text, for screen readers, mails and logs.

It uses the same view models as the screens. The text is linear: no panes side by side, no bars and no
graphics. The app's symbols become letters; names stay unchanged.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from rich.cells import cell_len

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow, PastNodeRow
from warpdeck.protocol.request_base import RequestMessage
from warpdeck_tui.terminal.glyph_sets import in_words
from warpdeck_tui.viewmodels.cells import TITLE_WIDTH
from warpdeck_tui.viewmodels.job_page import side as job_side
from warpdeck_tui.viewmodels.job_page.details import groups
from warpdeck_tui.viewmodels.job_page.events import events
from warpdeck_tui.viewmodels.jobs import job as job_page
from warpdeck_tui.viewmodels.jobs.job_columns import JobRows, Row, columns_of, job_row
from warpdeck_tui.viewmodels.jobs.listing import Choice, Listing
from warpdeck_tui.viewmodels.jobs.queue import summary
from warpdeck_tui.viewmodels.nodes.gpu_map import CLOSED, wasted_words
from warpdeck_tui.viewmodels.nodes.gpu_words import node_words
from warpdeck_tui.viewmodels.nodes.nodes import gpu_detail, node_lines, node_row
from warpdeck_tui.viewmodels.nodes.nodes import summary as nodes_summary
from warpdeck_tui.viewmodels.nodes.past_nodes import moment_words, unknown_words
from warpdeck_tui.viewmodels.nodes.timeline import SPANS, event_words
from warpdeck_tui.viewmodels.shell.sessions import session_rows, sessions
from warpdeck_tui.viewmodels.shell.sessions import summary as sessions_summary
from warpdeck_tui.viewmodels.site import site_tables
from warpdeck_tui.viewmodels.site.idle_gpus import (
    IDLE_COLUMNS,
    MAX_ASKED,
    idle_jobs,
    idle_words,
    unmeasured_words,
    waste_row,
    wastes,
)
from warpdeck_tui.viewmodels.site.usage import usage_text
from warpdeck_tui.widgets.cells import printable, text_of
from warpdeck_tui.widgets.columns import Column

from .plain_overview import overview
from .viewmodels import Cell, Line

QUEUE_COLUMNS = ("job", "state", "name", "user", "gpus", "time", "where")
PAST_COLUMNS = ("job", "state", "name", "user", "account", "gpus", "time", "where")
SESSION_TITLES = ("JOB", "STATE", "NAME", "USER", "GPU", "TIME", "WHERE", "USE")
NODE_TITLES = ("NODE", "STATE", "CPUS", "LOAD", "MEMORY", "GPUS", "JOBS", "JOBS OR REASON")
PAST_JOBS = 100
"""Number of the latest ended jobs that are shown. `warpdeck queue --all` and sacct list more."""
SITE_EVENTS = 40
"""Number of the latest events that are shown. `sacct` lists earlier jobs."""
LOG_BYTES, LOG_LINES = 16 * 1024, 40
NO_BARS_WIDTH = 0
"""The width of a page that has no room for bars."""
_PICTURES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[▁▂▃▄▅▆▇█▉▊▋▌▍▎▏░━╸─]+")
"""Matches the color sequences of logs, and bars. The number is printed beside each bar anyway."""
Text = list[str]


class PlainRequest(NamedTuple):
    """Selection of a screen's content.

    `what` is a job or a node. `user` is None for everybody's jobs. `at` is a time in the past in unix
    seconds, or None for now.
    """

    what: str = ""
    user: str | None = None
    at: float | None = None


def main(paths: Paths, screen: str, *, what: str, everybody: bool, at: float | None, as_json: bool) -> int:
    """Print the screen. Raises UserError."""
    wanted = PlainRequest(what, None if everybody else getpass.getuser(), at)
    if as_json:
        rows = msgspec.to_builtins(asyncio.run(_node_rows(paths, wanted)))
        sys.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
        return 0
    lines = asyncio.run(screen_text(paths, screen, wanted))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


async def screen_text(paths: Paths, screen: str, wanted: PlainRequest) -> Text:
    """Return the lines of the screen. Raises UserError."""
    async with await AsyncioClient.connect(paths, name="screen") as client:
        return [_clean(line) for line in await SCREENS[screen](client, wanted)]


async def _node_rows(paths: Paths, wanted: PlainRequest) -> Sequence[NodeRow]:
    async with await AsyncioClient.connect(paths, name="screen") as client:
        return await _nodes_of(client, wanted)


async def _nodes_of(client: AsyncioClient, wanted: PlainRequest) -> Sequence[NodeRow]:
    """Return the state of the nodes now or at the wanted time."""
    if wanted.at is None:
        return (await client.ask(requests.Nodes())).nodes
    return (await client.ask(requests.NodesAt(at=wanted.at))).nodes


async def _jobs_of(client: AsyncioClient, user: str | None = None) -> Sequence[JobRow]:
    """Return the unfinished jobs, of one user if given."""
    return (await client.ask(requests.Jobs(users=() if user is None else (user,)))).jobs


def _clean(line: str) -> str:
    """Remove terminal control sequences and graphics from the line."""
    return in_words(printable(_PICTURES.sub("", line))).rstrip()


async def _overview(client: AsyncioClient, wanted: PlainRequest) -> Text:
    lines, panels = await overview(client, wanted.user)
    for columns, panel in panels:
        rows = [tuple(Cell(text_of(cell)) for cell in cells) for _, cells in panel.rows]
        titles = [column.title for column in columns]
        text = _table(titles, rows) if rows else [panel.empty]
        lines += ["", "".join(cell.text for cell in panel.title), *text]
    return lines


async def _queue(client: AsyncioClient, wanted: PlainRequest) -> Text:
    rows = {row.id: row for row in await _jobs_of(client, wanted.user)}
    listing, now = Listing(), time.time()
    while listing.follow(rows, Choice(wanted.user)) and listing.behind:
        pass
    lines = JobRows(listing, QUEUE_COLUMNS, now=now)
    titles = [column.title for column in columns_of(QUEUE_COLUMNS)]
    shown = _table(titles, [lines.row(index) for index in range(len(lines))])
    return [summary(listing.jobs.values()), *shown]


async def _gpus(client: AsyncioClient, wanted: PlainRequest) -> Text:
    nodes = await _nodes_of(client, wanted)
    lines = [*_moment(nodes, wanted), nodes_summary(nodes), *_idle_words(nodes)]
    if wanted.at is not None:
        lines += await _events_around(client, wanted.at)
    for node in nodes:
        lines += ["", *node_words(node)]
    return lines


def _idle_words(nodes: Sequence[NodeRow]) -> Text:
    words = wasted_words(nodes)
    return [f"of the allocated GPUs, {words}"] if words else []


async def _events_around(client: AsyncioClient, at: float) -> Text:
    """Return lines with the events of nodes in the day around a time."""
    now, half_s = time.time(), SPANS[0][0] / 2
    told = await client.ask(requests.NodeTimeline(since=at - half_s, until=min(now, at + half_s), steps=1))
    events = [f"  {event_words(event, now)}" for event in told.events]
    return ["", "events of the day around this time:", *(events or ["  none"])]


async def _nodes(client: AsyncioClient, wanted: PlainRequest) -> Text:
    nodes = await _nodes_of(client, wanted)
    rows = [node_row(node)[1] for node in nodes]
    return [*_moment(nodes, wanted), nodes_summary(nodes), *_table(NODE_TITLES, rows)]


def _moment(nodes: Sequence[NodeRow], wanted: PlainRequest) -> Text:
    """Return lines with the requested past time, and with the nodes of unknown state at that time."""
    now = time.time()
    past = [node for node in nodes if isinstance(node, PastNodeRow)]
    if wanted.at is None:
        return []
    unknown = [(node.name, unknown_words(node, now)) for node in past]
    return [
        moment_words(past, wanted.at, now),
        *(f"unknown for {name}: {words}" for name, words in unknown if words),
    ]


async def _node(client: AsyncioClient, wanted: PlainRequest) -> Text:
    found = [node for node in await _nodes_of(client, wanted) if node.name == wanted.what]
    if not found:
        raise UserError(
            f"No such node: {wanted.what}", "Run `warpdeck screen nodes --plain` to list the nodes"
        )
    gpus = [line for gpu in found[0].gpus for line in ((), *gpu_detail(found[0], gpu.index))]
    return [*_moment(found, wanted), *_text([*node_lines(found[0]), *gpus])]


async def _job(client: AsyncioClient, wanted: PlainRequest) -> Text:
    detail, now = await client.ask(requests.JobInfo(job=wanted.what)), time.time()
    lines = _text([job_page.head(detail.row, now=now)])
    for group in groups(detail, now=now).values():
        if group.lines:
            lines += ["", f"{group.title}:", *_text(group.lines)]
    if detail.gpus:
        lines += ["", "GPUs:", *_text(job_side.gpu_lines(detail))]
    lines += [
        "",
        *_text(events(detail, now=now, width=NO_BARS_WIDTH)),
        "",
        f"end of the log, at most {LOG_LINES} lines:",
    ]
    try:
        async with client.log(wanted.what, offset=-LOG_BYTES) as log:
            data = b"".join([chunk async for chunk in log])
    except UserError as error:
        return [*lines, error.message]
    return [*lines, *data.decode("utf-8", "replace").splitlines()[-LOG_LINES:]]


async def _history(client: AsyncioClient, wanted: PlainRequest) -> Text:
    now = time.time()
    query = FinishedQuery(user=wanted.user, limit=PAST_JOBS)
    past = await client.ask(requests.Past(query=query, counted=True))
    titles = [column.title for column in columns_of(PAST_COLUMNS)]
    shown = _table(titles, [job_row(row, PAST_COLUMNS, now=now) for row in past.jobs])
    return [f"last {len(past.jobs)} of {past.total} finished jobs", *shown]


async def _usage(client: AsyncioClient, wanted: PlainRequest) -> Text:
    costs = await client.ask(requests.PastCosts(query=FinishedQuery(user=wanted.user)))
    return usage_text(costs.groups).splitlines()


async def _idle(client: AsyncioClient, _: PlainRequest) -> Text:
    now = time.time()
    jobs = await _jobs_of(client)
    rows = idle_jobs(jobs, now)
    used = {}
    for row in rows[:MAX_ASKED] if "curves" not in client.welcome.impossible else ():
        told = (await client.ask(requests.Curves(job=str(row.id)))).used
        if told is not None:
            used[row.id] = told
    found = wastes(rows, used, now)
    shown = [waste_row(each, now=now)[1] for each in found]
    words = idle_words(found, unmeasured=unmeasured_words(jobs, now))
    return [words, *(_table([column.title for column in IDLE_COLUMNS], shown) if shown else [])]


async def _sessions(client: AsyncioClient, wanted: PlainRequest) -> Text:
    open_ones = sessions(await _jobs_of(client), user=wanted.user)
    forwards = (await client.ask(requests.Forwards())).forwards
    rows = [line for _, line in session_rows(open_ones, forwards, now=time.time())]
    return [sessions_summary(open_ones, forwards), *(_table(SESSION_TITLES, rows) if rows else [])]


class SiteTable(NamedTuple):
    """A table of the site: the request for its data, its columns, and the function that makes its rows."""

    request: RequestMessage[Any]
    columns: Sequence[Column]
    rows: Callable[[Any, float], Sequence[site_tables.Row]]


SITE_TABLES = {
    "partitions": SiteTable(
        requests.Partitions(),
        site_tables.PARTITION_COLUMNS,
        lambda told, now: site_tables.partition_rows(told.partitions),
    ),
    "reservations": SiteTable(
        requests.Reservations(),
        site_tables.RESERVATION_COLUMNS,
        lambda told, now: site_tables.reservation_rows(told.reservations, now=now),
    ),
    "QoS": SiteTable(
        requests.QosList(), site_tables.QOS_COLUMNS, lambda told, now: site_tables.qos_rows(told.qos)
    ),
    "shares": SiteTable(
        requests.Shares(),
        site_tables.ACCOUNT_COLUMNS,
        lambda told, now: site_tables.account_rows(told.shares),
    ),
    "priorities": SiteTable(
        requests.Priorities(),
        site_tables.PRIORITY_COLUMNS,
        lambda told, now: site_tables.priority_rows(told.jobs),
    ),
    "drains": SiteTable(
        requests.Nodes(),
        site_tables.DRAIN_COLUMNS,
        lambda told, now: site_tables.drain_rows(
            [node for node in told.nodes if node.state in CLOSED], now=now
        ),
    ),
    "events": SiteTable(
        requests.Events(),
        site_tables.EVENT_COLUMNS,
        lambda told, now: site_tables.event_rows(told.events)[:SITE_EVENTS],
    ),
}


async def _site(client: AsyncioClient, _: PlainRequest) -> Text:
    """Return the tables of the site, one after the other, or why the scheduler has no data for them."""
    now, lines = time.time(), Text()
    for title, table in SITE_TABLES.items():
        reason = client.welcome.impossible.get(str(table.request.__struct_config__.tag))
        rows = [] if reason else table.rows(await client.ask(table.request), now)
        text = _table([column.title for column in table.columns], [line for _, line in rows])
        lines += ["", f"{title}:", *(text if rows else [reason or "none"])]
    return lines[1:]


SCREENS: dict[str, Callable[[AsyncioClient, PlainRequest], Awaitable[Text]]] = {
    "overview": _overview,
    "queue": _queue,
    "gpus": _gpus,
    "nodes": _nodes,
    "node": _node,
    "job": _job,
    "history": _history,
    "usage": _usage,
    "idle": _idle,
    "sessions": _sessions,
    "site": _site,
}


def _text(lines: Iterable[Line]) -> Text:
    return [_sentence(line) for line in lines]


def _sentence(line: Line) -> str:
    """Return a line as text. A fact becomes "title: words", without the spaces that align it on the screen."""
    words = "".join(cell.text for cell in line)
    if len(line) < 2 or line[0].style != "muted" or len(line[0].text) != TITLE_WIDTH + 1:
        return words
    title, rest = (
        words[: TITLE_WIDTH + 1].strip(),
        " ".join(_PICTURES.sub(" ", words[TITLE_WIDTH + 1 :]).split()),
    )
    return f"{title}: {rest}" if title else f"  {rest}"


def _table(titles: Sequence[str], rows: Sequence[Row]) -> Text:
    """Return a table with columns as wide as needed, so that nothing is cut off."""
    texts = [list(titles), *([_spoken(cell.text) for cell in row] for row in rows)]
    widths = [max(cell_len(line[at]) for line in texts if at < len(line)) for at in range(len(titles))]
    return [
        "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=False))
        for line in texts
    ]


def _spoken(text: str) -> str:
    """Return the text of a cell. A dot stands for zero in columns of numbers."""
    return "0" if text.strip() == "·" else in_words(text)
