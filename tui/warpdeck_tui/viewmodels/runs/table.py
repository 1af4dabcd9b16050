"""The rows and columns of the table of runs, sorted and filtered like the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from warpdeck.client.runs.parameters import varying
from warpdeck.client.runs.run import RunData, figure, known, lower_is_better, metric_names, number
from warpdeck_tui.viewmodels.cells import Cell
from warpdeck_tui.viewmodels.jobs.job_columns import JOB_COLUMNS, Shown
from warpdeck_tui.viewmodels.jobs.order import SORTED_BY, Order, rank
from warpdeck_tui.viewmodels.nodes.node_page import resampled
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.columns import Column
from warpdeck_tui.widgets.meter import scaled, sparkline
from warpdeck_tui.widgets.rows import KnownRows

MAX_PARAMETERS, MAX_METRICS = 6, 5
"""Largest numbers of columns. On a narrow terminal the last ones are omitted first."""
CURVE_WIDTH = 12
FIGURE_WIDTH = 9
BEST, CURVE = "best", "curve"


class RunColumn(NamedTuple):
    """A column, the cell of a run, and the value to sort by; None sorts last."""

    column: Column
    cell: Callable[[RunData, float], Shown]
    value: Callable[[RunData], float | str | None]


def run_columns(runs: Sequence[RunData]) -> dict[str, RunColumn]:
    """Return the columns by key: the job, the parameters that differ, and the metrics."""
    found = {name: _job_column(name) for name in ("job", "state", "name", "time")}
    if len({run.row.name for run in runs}) < 2:
        del found["name"]
    for at, name in enumerate(varying([run.params for run in runs])[:MAX_PARAMETERS]):
        found[f"param {name}"] = _parameter_column(name, runs, rank=at + 2)
    names = metric_names(runs)
    if names:
        found[f"last {names[0]}"] = _metric_column(names[0], rank=0)
        found[BEST] = _best_column(names[0])
        found[CURVE] = _curve_column(names[0])
    for at, name in enumerate(names[1:MAX_METRICS]):
        found[f"last {name}"] = _metric_column(name, rank=at + 9)
    found["where"] = _job_column("where")
    return found


def _job_column(name: str) -> RunColumn:
    known_column = JOB_COLUMNS[name]
    read = SORTED_BY[name]
    return RunColumn(
        known_column.column, lambda run, now: known_column.job(run.row, now), lambda run: read(run.row)
    )


def _parameter_column(name: str, runs: Sequence[RunData], *, rank: int) -> RunColumn:
    values = [run.params.get(name, "") for run in runs]
    width = min(16, max(len(name) + 1, *(len(value) for value in values)))
    align = "right" if all(number(value) is not None for value in values if value) else "left"
    column = Column(printable(name).upper(), width, rank, key=f"param {name}", align=align)  # type: ignore[arg-type]

    def value_of(run: RunData) -> float | str | None:
        text = run.params.get(name)
        found = number(text or "")
        return text if found is None else found

    return RunColumn(column, lambda run, now: Cell(printable(run.params.get(name, ""))), value_of)


def _metric_column(name: str, *, rank: int) -> RunColumn:
    width = max(FIGURE_WIDTH, min(16, len(name) + 1))
    column = Column(printable(name).upper(), width, rank, key=f"last {name}", align="right")
    return RunColumn(column, lambda run, now: _figure(run, run.last(name)), lambda run: run.last(name))


def _best_column(name: str) -> RunColumn:
    column = Column("MIN" if lower_is_better(name) else "MAX", FIGURE_WIDTH, 1, key=BEST, align="right")
    return RunColumn(column, lambda run, now: _figure(run, run.best(name)), lambda run: run.best(name))


def _curve_column(name: str) -> RunColumn:
    column = Column("CURVE", CURVE_WIDTH, 8, key=CURVE)
    return RunColumn(column, lambda run, now: Cell(curve(run, name), "accent"), lambda run: run.last(name))


def curve(run: RunData, name: str) -> str:
    """Return the metric of a run as a sparkline over the range of its own values."""
    values = known(run.readings.get(name, ()))
    if len(values) < 2:
        return ""
    return sparkline(resampled(scaled(values), CURVE_WIDTH), CURVE_WIDTH)


def _figure(run: RunData, value: float | None) -> Cell:
    if value is None:
        return Cell("" if run.is_read or run.row.start is None else "…", "muted")
    return Cell(figure(value))


def ordered(runs: Sequence[RunData], columns: Mapping[str, RunColumn], order: Order) -> list[RunData]:
    """Return the runs in this order. Runs without a value come last."""
    column = columns.get(order.column)
    if column is None:
        return sorted(runs, key=lambda run: (run.row.array_job_id, run.row.array_task_id or 0, run.row.id))
    read = column.value
    have = [run for run in runs if read(run) is not None]
    rest = [run for run in runs if read(run) is None]

    def key(run: RunData) -> tuple[bool, float | str]:
        value = read(run)
        assert value is not None
        return isinstance(value, str), value

    return [*sorted(have, key=key, reverse=order.descending), *sorted(rest, key=lambda run: rank(run.row))]


def best_words(runs: Sequence[RunData]) -> str:
    """Return the best run and its value, or "" if there are fewer than two runs with metrics."""
    names = metric_names(runs)
    found = [(value, run) for run in runs if names and (value := run.best(names[0])) is not None]
    if len(found) < 2:
        return ""
    pick = min if lower_is_better(names[0]) else max
    value, run = pick(found, key=lambda pair: pair[0])
    differ = varying([each.params for each in runs])
    values = " ".join(f"{name}={run.params[name]}" for name in differ if name in run.params)
    return printable(f"best {names[0]} {figure(value)}: {run.row.label}{f' with {values}' if values else ''}")


class RunRows(KnownRows):
    """The rows of the table. Elapsed times count up to `now`."""

    def __init__(self, runs: Sequence[RunData], columns: Mapping[str, RunColumn], *, now: float) -> None:
        self._runs = runs
        self._columns = tuple(columns.values())
        self._now = now

    def __len__(self) -> int:
        return len(self._runs)

    def row(self, index: int) -> tuple[Shown, ...]:
        run = self._runs[index]
        return tuple(column.cell(run, self._now) for column in self._columns)

    def key(self, index: int) -> str:
        return str(self._runs[index].row.id)
