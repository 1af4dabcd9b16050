"""Hand runs over to MLflow: parameters, all points of the metrics, state and times.

A run is found again by the identity of its site and its job, so a repeated hand-over adds only what is missing: runs that are
new, and runs that had not ended. MLflow cannot replace points, so a run that had not ended is deleted and written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError

from .run import RunData

SITE, JOB = "warpdeck.site", "warpdeck.job"
"""Tags by which a run is found again."""
BATCH_METRICS, BATCH_PARAMS = 1000, 100
"""Limits of MLflow for one request."""
ENDED = {"COMPLETED": "FINISHED", "CANCELLED": "KILLED", "PREEMPTED": "KILLED"}
"""MLflow's name of the final state of a job. Any other is FAILED."""


class HandedOver(NamedTuple):
    """Numbers of runs that were written, and that were there already."""

    written: int
    known: int


def hand_over(runs: Sequence[RunData], *, site: str, uri: str, experiment: str) -> HandedOver:
    """Write the runs to an experiment, which is created if it does not exist. Raises UserError."""
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise UserError("this needs the package mlflow-skinny", "run `pip install mlflow-skinny`") from error
    try:
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(experiment)
        number = found.experiment_id if found is not None else client.create_experiment(experiment)
        written = sum(_write(client, number, run, site) for run in runs)
    except (MlflowException, OSError) as error:
        raise UserError(f"MLflow at {uri} refused: {error}", "see whether the address is right") from error
    return HandedOver(written, len(runs) - written)


def _write(client: Any, experiment: str, run: RunData, site: str) -> bool:
    """Write one run. Returns false if it is there already."""
    row = run.row
    same = f"tags.`{SITE}` = '{site}' and tags.`{JOB}` = '{row.id}'"
    for known in client.search_runs([experiment], same):
        if known.info.status != "RUNNING":
            return False
        client.delete_run(known.info.run_id)
    begin_ms = round((row.start or row.submit) * 1000)
    tags = {SITE: site, JOB: str(row.id), "warpdeck.label": row.label, "mlflow.user": row.user}
    made = client.create_run(experiment, start_time=begin_ms, tags=tags, run_name=f"{row.name} {row.label}")
    number = made.info.run_id
    for batch in _batches(run, begin_ms):
        client.log_batch(number, **batch)
    if row.end is not None:
        client.set_terminated(number, ENDED.get(row.state, "FAILED"), end_time=round(row.end * 1000))
    return True


def _batches(run: RunData, begin_ms: int) -> Iterator[dict[str, list[Any]]]:
    from mlflow.entities import Metric, Param

    params = [Param(name, value) for name, value in run.params.items()]
    for at in range(0, len(params), BATCH_PARAMS):
        yield {"params": params[at : at + BATCH_PARAMS]}
    points = [
        Metric(
            name,
            point.value,
            begin_ms + round(point.at_s * 1000),
            place if point.step is None else int(point.step),
        )
        for name, curve in run.readings.items()
        for place, point in enumerate(curve)
    ]
    for at in range(0, len(points), BATCH_METRICS):
        yield {"metrics": points[at : at + BATCH_METRICS]}
