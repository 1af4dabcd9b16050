"""The two lines at the top of each screen: the names of the screens, and the state of the cluster.

Each line is built for a width. If there is too little space, its parts become shorter in a fixed order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, Line, thin_bar
from warpdeck_tui.viewmodels.jobs.queue import is_idle
from warpdeck_tui.viewmodels.site.cluster_totals import Totals
from warpdeck_tui.viewmodels.site.quota import Quota
from warpdeck_tui.widgets.cells import printable, shortened
from warpdeck_tui.widgets.glyphs import UNKNOWN
from warpdeck_tui.widgets.meter import sparkline

TITLE = "warpdeck"
GAP = 3
"""Number of blanks between two parts of the line about the cluster."""
SHOW_NODES = "app.show_nodes"
MOST_NAMES = 4
"""Largest number of users that are listed with their idle GPUs."""
LONGEST_NAME = 16
FULL_PCT, LEAST_PCT = 100.0, 0.1


class Part(NamedTuple):
    """A text of a line with the name of its style, and the Textual action of a click on it, or ""."""

    text: str
    style: str = ""
    command: str = ""


class Tab(NamedTuple):
    """A screen in the line of names: its action, its name, and the contexts that belong to it."""

    action: str
    name: str
    places: tuple[str, ...]


TABS = (
    Tab("show_overview", "Overview", ("overview",)),
    Tab("show_queue", "Queue", ("queue", "welcome")),
    Tab("show_nodes", "GPUs", ("nodes", "node")),
    Tab("show_job", "Job", ("job", "runs")),
    Tab("show_history", "History", ("history",)),
    Tab("show_sessions", "Sessions", ("sessions",)),
    Tab("show_admin", "Site", ("admin",)),
)


class TabFacts(NamedTuple):
    """The content of the line of names.

    `keys` maps the actions of the screens to their keys. `away` says why there is no connection, or is "".
    """

    place: str
    keys: Mapping[str, str]
    site: str = ""
    away: str = ""
    clock: str = ""


def tab_line(facts: TabFacts, width: int) -> list[Part]:
    """Return the line of names in exactly `width` columns.

    The problem of the connection is more important than the names of the other screens. The first name, which is
    that of the overview, is left out if there is no room for it and another screen is in front.
    """
    every, few = _tabs(facts, TABS), _tabs(facts, TABS[1:])
    if facts.place in TABS[0].places:
        few = every
    title = Part(f" {TITLE} ", "title")
    here = [part for part in every if part.style == "cursor"]
    for left, right in (
        ([title, Part(" "), *every], _right(facts, with_site=True)),
        ([title, *every], _right(facts, with_site=True)),
        ([title, *few], _right(facts, with_site=True)),
        (few, _right(facts, with_site=True)),
        (few, _right(facts, with_site=False)),
        (here, _right(facts, with_site=False)),
    ):
        spare = width - _width(left) - _width(right)
        if spare >= 0:
            return [*left, Part(" " * spare), *right]
    if not facts.away:
        return few
    return [Part(shortened(f" ⚠ {printable(facts.away)}", width).ljust(width), "warn")]


def _tabs(facts: TabFacts, tabs: Iterable[Tab]) -> list[Part]:
    parts = []
    for tab in tabs:
        key, command = facts.keys.get(tab.action, ""), f"app.{tab.action}"
        if facts.place in tab.places:
            parts.append(Part(f" {key} {tab.name} ".replace("  ", " "), "cursor", command))
        else:
            parts += [Part(f" {key}", "key", command), Part(f" {tab.name} ", "", command)]
    return parts


def _right(facts: TabFacts, *, with_site: bool) -> list[Part]:
    site = Part(f" {shortened(printable(facts.site), 24)}" if with_site and facts.site else "", "muted")
    state = Part(f" ⚠ {printable(facts.away)}", "warn") if facts.away else Part(" ●", "RUNNING")
    return [site, state, Part(f" {facts.clock} ", "muted")]


def _width(parts: Iterable[Part]) -> int:
    return sum(cell_len(part.text) for part in parts)


class ClusterFacts(NamedTuple):
    """The content of the line about the cluster.

    `trend` is the utilization of the last minutes in percent, the newest last. `idle` maps users to the number of their GPUs
    that are allocated but not used.
    """

    totals: Totals
    trend: Sequence[float | None] = ()
    idle: Mapping[str, int] = {}
    down: Sequence[str] = ()
    drained: Sequence[str] = ()
    quota: Quota | None = None


def idle_gpus(jobs: Iterable[JobRow], now: float) -> dict[str, int]:
    """Return the number of idle GPUs of each user, the largest number first."""
    counts: Counter[str] = Counter()
    for row in jobs:
        if row.gpus and is_idle(row, now):
            counts[row.user] += row.gpus
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


Choices = list[Line]
"""Forms of a part, the longest first. The last one may be empty, which leaves the part out."""


def cluster_line(facts: ClusterFacts, width: int) -> Line:
    """Return the line about the cluster in at most `width` columns."""
    totals = facts.totals
    if not totals.cpus and not totals.gpus:
        return ()
    wide = width >= WIDE
    parts: dict[str, Choices] = {
        "held": _held(totals, wide=wide),
        "memory": [] if totals.gpus else _memory(totals, wide=wide),
        "util": _util(facts, wide=wide),
        "idle": _idle(facts.idle) if totals.gpus else [],
        "down": _down(facts),
        "quota": _quota(facts.quota),
    }
    chosen = {name: 0 for name, choices in parts.items() if choices}
    for name in SHORTENING:
        if _line_width(parts, chosen) <= width:
            break
        if name in chosen and chosen[name] < len(parts[name]) - 1:
            chosen[name] += 1
    cells: list[Cell] = []
    for name, at in chosen.items():
        if part := parts[name][at]:
            cells += [Cell(" " * (GAP if cells else 1)), *part]
    return tuple(cells)


WIDE = 140
"""Least width at which bars and sparklines are longer."""
SHORTENING = (
    "down", "quota", "util", "held", "memory", "util", "idle", "idle",
    "util", "memory", "down", "util", "quota", "memory", "down", "util", "held", "idle", "down",
)  # fmt: skip
"""The parts in the order in which they take their next shorter form."""


def _line_width(parts: Mapping[str, Choices], chosen: Mapping[str, int]) -> int:
    lines = [line for name, at in chosen.items() if (line := parts[name][at])]
    return 1 + sum(cell_len(cell.text) for line in lines for cell in line) + GAP * (len(lines) - 1)


def _held(totals: Totals, *, wide: bool) -> Choices:
    """Return the number of GPUs in use, or of CPUs if the cluster has no GPUs."""
    title, used, total = ("GPUs", totals.held_gpus, totals.gpus)
    if not totals.gpus:
        title, used, total = ("CPUs", totals.cpus_used, totals.cpus)
    return _bars(title, FULL_PCT * used / total if total else None, f"{used}/{total}", wide=wide)


def _memory(totals: Totals, *, wide: bool) -> Choices:
    if not totals.mem_bytes:
        return []
    used, total = format_memory(totals.mem_alloc_bytes) or "0", format_memory(totals.mem_bytes)
    pct = FULL_PCT * totals.mem_alloc_bytes / totals.mem_bytes
    return [*_bars("memory", pct, f"{used}/{total}", wide=wide), ()]


def _bars(title: str, percent: float | None, number: str, *, wide: bool) -> Choices:
    return [
        (Cell(f"{title} ", "muted"), *thin_bar(percent, width), Cell(f" {number}"))
        for width in ((20, 10, 6) if wide else (10, 6))
    ] + [(Cell(f"{title} ", "muted"), Cell(number))]


def _util(facts: ClusterFacts, *, wide: bool) -> Choices:
    util = facts.trend[-1] if facts.trend else None
    if util is None:
        return []
    title, number = Cell("util " if facts.totals.gpus else "load ", "muted"), Cell(f"{util:.0f}%")
    choices: Choices = []
    for width in (30, 12, 8, 5) if wide else (12, 8, 5):
        points = [_visible(point) for point in facts.trend][-width:]
        unknown = Cell(UNKNOWN * (width - len(points)), "track")
        choices.append((title, unknown, Cell(f"{sparkline(points, len(points))} ", "accent"), number))
    return [*choices, (title, number), ()]


def _visible(percent: float | None) -> float | None:
    """Return a percentage that a sparkline shows also if it is 0, because a blank would look like a gap."""
    return None if percent is None else max(percent, LEAST_PCT)


def _idle(idle: Mapping[str, int]) -> Choices:
    """Return the number of GPUs that are allocated but not used, and their users."""
    count = sum(idle.values())
    if not count:
        return [(Cell("idle 0", "muted"),), ()]
    names = [shortened(printable(user), LONGEST_NAME) for user in idle]
    counts = list(idle.values())
    choices: Choices = []
    for shown in range(min(MOST_NAMES, len(names)), 0, -1):
        listed = [
            name if len(names) == 1 else f"{name} {each}"
            for name, each in zip(names[:shown], counts[:shown], strict=True)
        ]
        more = [f"+{len(names) - shown}"] if len(names) > shown else []
        choices.append((Cell(f"idle {count}", "PENDING"), Cell(f": {', '.join([*listed, *more])}")))
    return [choices[0], choices[-1], (Cell(f"idle {count}", "PENDING"),), ()]


def _down(facts: ClusterFacts) -> Choices:
    """Return the number of nodes that are down or drained. On a wide line their names are added."""
    totals = facts.totals
    down = _nodes("down", facts.down, totals.down, "warn")
    if not totals.drained:
        return [down, down[:1], ()]
    drained = _nodes("drained", facts.drained, totals.drained, "PENDING")
    if not totals.down:
        return [(*down, Cell(" " * GAP), *drained), drained[:1], ()]
    return [(*down, Cell(" " * GAP), *drained), (down[0], Cell(" " * GAP), drained[0]), down[:1], ()]


def _nodes(title: str, names: Sequence[str], count: int, style: str) -> Line:
    if not count:
        return (Cell(f"{title} 0", "muted"),)
    shown = ", ".join(shortened(printable(name), LONGEST_NAME) for name in names[:3])
    more = f", +{count - 3}" if count > 3 else ""
    return Cell(f"{title} {count}", style), Cell(f": {shown}{more}" if shown else "")


def _quota(quota: Quota | None) -> Choices:
    """Return the user's GPUs and their limit, and how many remain."""
    if quota is None:
        return []
    left = max(0, quota.most - quota.used)
    style = "PENDING" if not left else ""
    used = Cell(f"{quota.used}/{quota.most}", style)
    title = Cell("quota ", "muted")
    return [(title, used, Cell(f", {left} left", style or "muted")), (title, used), ()]
