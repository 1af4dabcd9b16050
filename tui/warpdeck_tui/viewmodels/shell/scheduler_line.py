"""The lines about a scheduler other than our own: its name, the age of its data, a problem, and its load by requests."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from warpdeck.base.paths import OWN
from warpdeck.protocol.site_rows import EngineRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age
from warpdeck_tui.widgets.cells import printable, shortened

FRESH_S = 5.0
"""Age of the data in seconds up to which it is not shown."""
OLD_S = 180.0
"""Age of the data in seconds from which on it is a warning. Even an idle gateway reads more often."""
MINUTES_FROM_S = 120
"""Age in seconds from which on it is shown in minutes."""
TITLES = {"slurm": "Slurm"}
GAP = 3
"""Number of blanks between two parts of a line."""
BEFORE_STEP = (". ", ": ")
"""Ends of the part of a problem that precedes its next step."""
LEAST_PROBLEM = 24
"""Columns of a problem that are shown before its next step. Otherwise the next step is cut off, too."""


def scheduler_lines(engine: EngineRow, *, now: float, width: int) -> list[Line]:
    """Return one line or, with a problem that is too long for it, two.

    If there is too little space, the rate of requests is left out first, then the cluster and the version.
    """
    read = Cell(read_words(engine, now=now), "warn" if _is_old(engine, now) else "muted")
    problem = Cell(_one_line(engine.problem), "warn")
    lines = _choices(engine, read, problem)
    if found := next((line for line in lines if _width(line) <= width), None):
        return [found]
    if not problem.text:
        return [lines[-1]]
    lines = _choices(engine, read)
    first = next((line for line in lines if _width(line) <= width), lines[-1])
    return [first, (Cell(" "), problem._replace(text=with_next_step(problem.text, width - 1)))]


def _is_old(engine: EngineRow, now: float) -> bool:
    return bool(engine.problem) or (engine.read_at is not None and now - engine.read_at > OLD_S)


def _choices(engine: EngineRow, *parts: Cell) -> list[Line]:
    """Return the line with these parts, and shorter forms of it."""
    names = [Cell(name, "accent") for name in names_of(engine)]
    rate = Cell(rate_words(engine), "muted")
    return [_joined((names[0], *parts, rate)), *(_joined((name, *parts)) for name in names)]


def names_of(engine: EngineRow) -> list[str]:
    """Return the scheduler's name with version and cluster, and shorter forms of it."""
    title = TITLES.get(engine.name, printable(engine.name))
    version = ".".join(printable(engine.version).split(".")[:2])
    long = f"{title} {version}".rstrip()
    cluster = f" · {printable(engine.cluster)}" if engine.cluster else ""
    return list(dict.fromkeys((long + cluster, long, title)))


def read_words(engine: EngineRow, *, now: float) -> str:
    """Return the age of the data, such as "read 25 s ago", or "" if they are fresh."""
    if engine.read_at is None:
        return "" if engine.name == OWN else "not read yet"
    seconds = max(0.0, now - engine.read_at)
    if seconds <= FRESH_S and not engine.problem:
        return ""
    if seconds < MINUTES_FROM_S:
        return f"read {seconds:.0f} s ago"
    return f"read {seconds // 60:.0f} min ago" if seconds < 3600 else f"read {age(seconds)} ago"


def rate_words(engine: EngineRow) -> str:
    """Return the load that we cause, such as "6 requests/min", or that of the site gateway, which asks for all users."""
    rate, site = engine.requests_a_minute, engine.site_gateway
    if rate is None:
        return ""
    if site is not None and not site.problem:
        return f"site gateway, {site.requests_a_minute:g} request{'' if site.requests_a_minute == 1 else 's'}/min"
    return f"{round(rate, 1):g} request{'' if round(rate, 1) == 1 else 's'}/min"


def with_next_step(problem: str, width: int) -> str:
    """Return a problem in at most `width` columns. The next step at its end stays, and the part before it is shortened."""
    if cell_len(problem) <= width:
        return problem
    end = max(problem.rfind(each) for each in BEFORE_STEP)
    step = problem[end + 1 :]
    room = width - cell_len(step)
    return (
        shortened(problem[:end], room) + step
        if end > 0 and room >= LEAST_PROBLEM
        else shortened(problem, width)
    )


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _joined(parts: Sequence[Cell]) -> Line:
    cells: list[Cell] = []
    for part in parts:
        if part.text:
            cells += [Cell(" " * (GAP if cells else 1)), part]
    return tuple(cells)


def _width(line: Line) -> int:
    return sum(cell_len(cell.text) for cell in line)
