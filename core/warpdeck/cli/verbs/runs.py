"""`warpdeck runs`: jobs with their parameters and metrics as columns, as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from warpdeck.base.errors import UserError
from warpdeck.base.output import print_json, print_note, print_table
from warpdeck.base.paths import default_paths
from warpdeck.cli.arguments import ANY_JOBS, JSON, SELECTION, Argument, UsageError, number
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb
from warpdeck.notation.values.lists import words_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from argparse import Namespace
    from typing import Any

    from warpdeck.client.runs.run import RunData

MAX_PARAMETERS, MAX_METRICS = 6, 5
"""Largest numbers of columns of the table. The other formats have all."""
PARAMETER, METRIC = "params.", "metrics."
"""Beginnings of the names of columns, as in MLflow's tables of runs."""


def _check(args: Namespace) -> None:
    if sum((args.json, args.csv, bool(args.parquet), bool(args.mlflow))) > 1:
        raise UsageError(
            "runs writes only one format at a time", "use one of --json, --csv, --parquet and --mlflow"
        )


def _main(args: Namespace) -> int:
    import asyncio

    with progress("reading the output of the runs ..."):
        site, runs = asyncio.run(_runs(args))
    if args.json:
        print_json([_as_json(run) for run in runs])
    elif args.csv:
        _write_csv(runs)
    elif args.parquet:
        _write_parquet(runs, args.parquet)
        print_note(f"{args.parquet} has {len(runs)} runs")
    elif args.mlflow:
        from warpdeck.client.runs.mlflow_export import hand_over

        done = hand_over(runs, site=site, uri=args.mlflow, experiment=args.experiment)
        print_note(f"{done.written} runs written to {args.experiment}, {done.known} were there already")
    else:
        _print(runs)
    return 0


async def _runs(args: Namespace) -> tuple[str, list[RunData]]:
    """Return the identity of the site and the chosen runs, in the order of the jobs or sorted. Raises UserError."""
    import asyncio
    import time

    from warpdeck.client.asyncio_client import AsyncioClient
    from warpdeck.client.runs.run import chosen
    from warpdeck.client.runs.run_reader import AT_ONCE, ClientRuns, read_run
    from warpdeck.protocol import requests

    async with await AsyncioClient.connect(default_paths(), name="cli") as client:
        me, site = client.welcome.user, client.welcome.controller
        users = (me,) if args.me or not (args.jobs or args.user) else tuple(words_of(args.user))
        wanted = requests.Jobs(
            ids=tuple(words_of(args.jobs)),
            users=users,
            names=tuple(words_of(args.name)),
            states=tuple(words_of(args.state)),
            finished=True,
            limit=args.limit,
        )
        rows = [row for row in (await client.ask(wanted)).jobs if row.start is not None]
        turn = asyncio.Semaphore(AT_ONCE)
        source = ClientRuns(client)
        runs = await asyncio.gather(*(read_run(source, row, turn) for row in rows))
    return site, _sorted(chosen(runs, args.where, me=me, now=time.time()), args.sort)


def _sorted(runs: list[RunData], name: str) -> list[RunData]:
    """Sort by a parameter or by the best value of a metric, the best run first. Runs without a value come last."""
    if not name:
        return runs
    from warpdeck.client.runs.run import lower_is_better
    from warpdeck.client.runs.run import number as parsed

    if any(name in run.readings for run in runs):
        sign = 1 if lower_is_better(name) else -1

        def by_metric(run: RunData) -> tuple[int, float]:
            value = run.best(name)
            return (1, 0.0) if value is None else (0, sign * value)

        return sorted(runs, key=by_metric)
    if not any(name in run.params for run in runs):
        known = sorted({each for run in runs for each in (*run.params, *run.readings)})
        hint = f"there are: {', '.join(known)}" if known else "their output has no metrics"
        raise UserError(f"no run has a parameter or a metric {name}", hint)

    def by_parameter(run: RunData) -> tuple[int, float, str]:
        text = run.params.get(name)
        value = parsed(text or "")
        return (2, 0.0, "") if text is None else (1, 0.0, text) if value is None else (0, value, "")

    return sorted(runs, key=by_parameter)


def _as_json(run: RunData) -> dict[str, Any]:
    metrics = {}
    for name, points in run.readings.items():
        metrics[name] = {"last": run.last(name), "best": run.best(name), "step": points[-1].step}
    row = run.row
    return {
        **{"job": row.label, "name": row.name, "user": row.user, "state": row.state},
        **{"start": row.start, "end": row.end, "nodes": row.node_list, "gpus": row.gpus},
        **{"params": dict(run.params), "metrics": metrics},
    }


def _flat(runs: Sequence[RunData]) -> tuple[list[str], list[dict[str, object]]]:
    """Return the names of all columns, and the rows. Of each metric they have the last value."""
    params = dict.fromkeys(f"{PARAMETER}{name}" for run in runs for name in run.params)
    metrics = dict.fromkeys(f"{METRIC}{name}" for run in runs for name in run.readings)
    rows = []
    for run in runs:
        row: dict[str, object] = {
            name: value for name, value in _as_json(run).items() if not isinstance(value, dict)
        }
        row |= {f"{PARAMETER}{name}": value for name, value in run.params.items()}
        row |= {f"{METRIC}{name}": run.last(name) for name in run.readings}
        rows.append(row)
    fixed = ["job", "name", "user", "state", "start", "end", "nodes", "gpus"]
    return [*fixed, *params, *metrics], rows


def _write_csv(runs: Sequence[RunData]) -> None:
    import csv

    columns, rows = _flat(runs)
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _write_parquet(runs: Sequence[RunData], path: str) -> None:
    """Write the file as a whole or not at all. Raises UserError."""
    import os

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(
            "Parquet needs the package pyarrow", "run `pip install pyarrow`, or use --csv"
        ) from error
    columns, rows = _flat(runs)
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in columns})
    try:
        parquet.write_table(table, f"{path}.new")
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}", "name a folder that you may write"
        ) from error


def _print(runs: Sequence[RunData]) -> None:
    from warpdeck.client.runs.parameters import varying
    from warpdeck.client.runs.run import figure, lower_is_better, metric_names

    if not runs:
        print("no runs")
        return
    params = varying([run.params for run in runs])[:MAX_PARAMETERS]
    names = metric_names(runs)
    titles = ["JOB", "NAME", "STATE", *(name.upper() for name in params)]
    titles += [name.upper() for name in names[:MAX_METRICS]]
    if names:
        titles.append(f"{'MIN' if lower_is_better(names[0]) else 'MAX'} {names[0].upper()}")

    def cells(run: RunData) -> list[str]:
        figures = [run.last(name) for name in names[:MAX_METRICS]]
        figures += [run.best(names[0])] if names else []
        texts = ["" if value is None else figure(value) for value in figures]
        return [
            run.row.label,
            run.row.name,
            run.row.state,
            *(run.params.get(name, "") for name in params),
            *texts,
        ]

    print_table(titles, [cells(run) for run in runs], right=frozenset(range(3 + len(params), len(titles))))
    hidden = len(names) - MAX_METRICS
    if hidden > 0:
        print_note(f"{hidden} more metrics: --json and --csv have all")


VERBS = (
    Verb(
        "runs",
        "Compare runs: jobs with their parameters and metrics as columns.\n"
        "Parameters are the options of the program, or the values of a sweep. Metrics are the numbers that the program prints,\n"
        "such as `loss=0.41` or the lines of `warpdeck.log`. Without jobs or a user, it lists your own latest jobs.",
        (
            Argument("[JOB,...]", "job ids; 12 means all tasks of array 12", into="jobs", default="", completes=ANY_JOBS),
            *SELECTION,
            Argument("--where FILTER", "only runs that match, in the language of the app's filter", default=""),
            Argument("--sort NAME", "sort by a parameter, or by the best value of a metric", default=""),
            Argument("--limit N", "the latest N jobs", parse=number(), default=50),
            Argument("--csv", "print CSV with all parameters and the last value of each metric"),
            Argument("--parquet FILE", "write the same as a Parquet file; needs pyarrow"),
            Argument("--mlflow URI", "hand the runs over to MLflow, such as http://host:5000; needs mlflow-skinny"),
            Argument("--experiment NAME", "with --mlflow: the experiment", default="warpdeck"),
            JSON,
        ),
        examples=(
            "warpdeck runs --name vit              all my jobs of this name",
            "warpdeck runs 120 --sort loss         the tasks of array 120, the lowest loss first",
            "warpdeck runs --where 'lr=1e-3 loss<0.4'",
            "warpdeck runs --csv >runs.csv         for pandas: pd.read_csv('runs.csv')",
        ),
        check=_check, run=_main,
    ),
)  # fmt: skip
