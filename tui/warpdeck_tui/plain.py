"""The app's screens as text, once: for screen readers, mails and logs. The view-models say here what they say on the screens.

A line after the other: no columns side by side, no bars, no pictures; the app's own signs become letters, names stay as they are.
"""

from __future__ import annotations

import asyncio
import getpass
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from rich.cells import cell_len

from warpdeck.api.client import Client
from warpdeck.api.site import Site
from warpdeck.errors import UserError
from warpdeck.model.past import PastQuery
from warpdeck.paths import Paths

from .signs import in_words
from .viewmodels import Line, sitetables
from .viewmodels import job as job_page
from .viewmodels.idle import IDLE_COLUMNS, MAX_ASKED, idle_jobs, idle_words, waste_row, wastes
from .viewmodels.jobcolumns import JobRows, columns_of, job_row
from .viewmodels.listing import Choice, Listing
from .viewmodels.nodes import METRIC_WORDS, gpu_detail, gpu_lines, node_lines, node_row
from .viewmodels.nodes import summary as nodes_summary
from .viewmodels.queue import summary
from .viewmodels.sessions import session_rows, sessions
from .viewmodels.sessions import summary as sessions_summary
from .viewmodels.usage import usage_text
from .widgets.cells import printable
from .widgets.columns import Column

QUEUE_COLUMNS = ("job", "state", "name", "user", "gpus", "time", "where")
PAST_COLUMNS = ("job", "state", "name", "user", "account", "gpus", "time", "where")
SESSION_TITLES = ("JOB", "STATE", "NAME", "USER", "GPU", "TIME", "WHERE", "USE")
NODE_TITLES, NODE_BARS = ("NODE", "STATE", "CPUS", "GPUS", "JOBS", "JOBS OR REASON"), (3, 4)
PAST_JOBS = 100
"""So many of the latest; `warpdeck queue --all` and sacct list more."""
SITE_EVENTS = 40
"""So many of the latest; `sacct` knows of the jobs before."""
LOG_BYTES, LOG_LINES = 16 * 1024, 40
_PICTURES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[▁▂▃▄▅▆▇█▉▊▋▌▍▎▏░]+")
"""Colours of logs, and bars: the number stands beside each."""
Text = list[str]


def main(paths: Paths, screen: str, *, what: str, everybody: bool) -> int:
    """Prints it. Raises UserError."""
    lines = asyncio.run(screen_text(paths, screen, what, None if everybody else getpass.getuser()))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


async def screen_text(paths: Paths, screen: str, what: str, user: str | None) -> Text:
    """The screen's lines. `user` None: everybody's jobs. Raises UserError."""
    async with await Client.connect(paths, name="screen") as client:
        return [_clean(line) for line in await SCREENS[screen](client, what, user)]


def _clean(line: str) -> str:
    """Nothing that a terminal would obey, and nothing to be looked at."""
    return in_words(printable(_PICTURES.sub("", line))).rstrip()


async def _queue(client: Client, _: str, user: str | None) -> Text:
    rows = {row.id: row for row in await client.jobs(user=user)}
    listing, now = Listing(), time.time()
    while listing.follow(rows, Choice(user)) and listing.behind:
        pass
    lines = JobRows(listing, QUEUE_COLUMNS, now=now)
    titles = [column.title for column in columns_of(QUEUE_COLUMNS)]
    shown = _table(titles, [lines.row(index) for index in range(len(lines))])
    return [summary(listing.jobs.values()), *shown]


async def _gpus(client: Client, _: str, __: str | None) -> Text:
    nodes = await client.nodes()
    lines = [nodes_summary(nodes)]
    for metric in ("util", "owner"):
        lines += ["", f"{METRIC_WORDS[metric]}:"]
        for label, cells in gpu_lines(nodes, metric):
            lines.append(f"{label}: " + (", ".join(cell[1].strip() for cell in cells) or "no GPU"))
    return lines


async def _nodes(client: Client, _: str, __: str | None) -> Text:
    nodes = await client.nodes()
    rows = [node_row(node)[1] for node in nodes]
    words = [tuple(cell for at, cell in enumerate(row) if at not in NODE_BARS) for row in rows]
    return [nodes_summary(nodes), *_table(NODE_TITLES, words)]


async def _node(client: Client, what: str, _: str | None) -> Text:
    found = [node for node in await client.nodes() if node.name == what]
    if not found:
        raise UserError(f"there is no node {what}", "see `warpdeck screen nodes --plain`")
    gpus = [line for gpu in found[0].gpus for line in ((), *gpu_detail(found[0], gpu.index))]
    return _text([*node_lines(found[0]), *gpus])


async def _job(client: Client, what: str, _: str | None) -> Text:
    detail, now = await client.job(what), time.time()
    shown: list[Line] = [job_page.head(detail.row, now=now), (), *job_page.details(detail, now=now)]
    lines = _text(shown)
    if detail.gpus:
        lines += ["", *_text(job_page.gpu_lines(detail))]
    lines += ["", *_text(job_page.events(detail)), "", f"the end of its output, at most {LOG_LINES} lines:"]
    try:
        async with client.log(what, offset=-LOG_BYTES) as log:
            data = b"".join([chunk async for chunk in log])
    except UserError as error:
        return [*lines, error.message]
    return [*lines, *data.decode("utf-8", "replace").splitlines()[-LOG_LINES:]]


async def _history(client: Client, _: str, user: str | None) -> Text:
    now = time.time()
    past = await client.past(PastQuery(user=user, limit=PAST_JOBS), counted=True)
    titles = [column.title for column in columns_of(PAST_COLUMNS)]
    shown = _table(titles, [job_row(row, PAST_COLUMNS, now=now) for row in past.jobs])
    return [f"the latest {len(past.jobs)} of {past.total} jobs that have ended", *shown]


async def _usage(client: Client, _: str, user: str | None) -> Text:
    return usage_text(await client.past_costs(PastQuery(user=user))).splitlines()


async def _idle(client: Client, _: str, __: str | None) -> Text:
    now = time.time()
    rows = idle_jobs(await client.jobs(), now)
    used = {}
    for row in rows[:MAX_ASKED]:
        told = (await client.curves(job=str(row.id))).used
        if told is not None:
            used[row.id] = told
    found = wastes(rows, used, now)
    shown = [waste_row(each, now=now)[1] for each in found]
    return [idle_words(found), *(_table([column.title for column in IDLE_COLUMNS], shown) if shown else [])]


async def _sessions(client: Client, _: str, user: str | None) -> Text:
    open_ones = sessions(await client.jobs(), user=user)
    forwards = await client.forwards()
    rows = [line for _, line in session_rows(open_ones, forwards, now=time.time())]
    return [sessions_summary(open_ones, forwards), *(_table(SESSION_TITLES, rows) if rows else [])]


async def _site(client: Client, _: str, __: str | None) -> Text:
    """Its tables, one after the other."""
    site, now = Site(client), time.time()
    shown: dict[str, tuple[Sequence[Column], Sequence[sitetables.Row]]] = {
        "partitions": (
            sitetables.PARTITION_COLUMNS,
            sitetables.partition_rows(await site.partitions()),
        ),
        "reservations": (
            sitetables.RESERVATION_COLUMNS,
            sitetables.reservation_rows(await site.reservations(), now=now),
        ),
        "QoS": (sitetables.QOS_COLUMNS, sitetables.qos_rows(await site.qos())),
        "shares": (sitetables.ACCOUNT_COLUMNS, sitetables.account_rows((await site.shares()).shares)),
        "priorities": (
            sitetables.PRIORITY_COLUMNS,
            sitetables.priority_rows((await site.priorities()).jobs),
        ),
        "drains": (sitetables.DRAIN_COLUMNS, sitetables.drain_rows(await client.nodes(), now=now)),
        "events": (sitetables.EVENT_COLUMNS, sitetables.event_rows(await site.events())[:SITE_EVENTS]),
    }
    lines: Text = []
    for title, (columns, rows) in shown.items():
        table = _table([column.title for column in columns], [line for _, line in rows])
        lines += ["", f"{title}:", *(table if rows else ["none"])]
    return lines[1:]


SCREENS: dict[str, Callable[[Client, str, str | None], Awaitable[Text]]] = {
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
    return ["".join(cell.text for cell in line) for line in lines]


def _table(titles: Sequence[str], rows: Sequence[Line]) -> Text:
    """As wide as it takes: nothing is cut."""
    texts = [list(titles), *([in_words(cell.text) for cell in row] for row in rows)]
    widths = [max(cell_len(line[at]) for line in texts if at < len(line)) for at in range(len(titles))]
    return [
        "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=False))
        for line in texts
    ]
