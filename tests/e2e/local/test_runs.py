"""`warpdeck runs` with real jobs that print their metrics: all formats, filters and orders, and MLflow's own client."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home

TRAIN = """\
import argparse, sys
import warpdeck
words = argparse.ArgumentParser()
words.add_argument("--lr", type=float)
lr = words.parse_args().lr
for step in range(1, 4):
    warpdeck.log({"loss": 10 * lr / step, "acc": step / 4}, step=step)
sys.exit(lr > 0.5)
"""
RATES = ("0.1", "0.3", "0.9")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A site on which a program has run with each of RATES."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(TRAIN)
    with temporary_home() as home:
        for rate in RATES:
            script = folder / f"run-{rate}.sh"
            script.write_text(f"#!/bin/sh\n{sys.executable} {folder}/train.py --lr {rate}\n")
            home.run(
                "submit", "--wait", "--no-snapshot", "-J", "train", "-o", f"{folder}/%j.out", str(script)
            )
        yield home


def test_runs_have_their_parameters_and_metrics(site: Home) -> None:
    runs = site.json("runs")
    assert [run["params"]["lr"] for run in runs] == list(RATES)
    assert [run["state"] for run in runs] == ["COMPLETED", "COMPLETED", "FAILED"]
    assert runs[0]["metrics"]["loss"] == pytest.approx({"last": 1 / 3, "best": 1 / 3, "step": 3})
    assert runs[0]["metrics"]["acc"] == {"last": 0.75, "best": 0.75, "step": 3}
    table = site.ok("runs", "--name", "train")
    assert "LR" in table.splitlines()[0] and "MIN LOSS" in table.splitlines()[0]
    assert len(table.splitlines()) == 1 + len(RATES)


@pytest.mark.parametrize(
    ("words", "rates"),
    [
        (["--sort", "loss"], ["0.1", "0.3", "0.9"]),
        (["--sort", "lr"], ["0.1", "0.3", "0.9"]),
        (["--where", "loss>0.5"], ["0.3", "0.9"]),
        (["--where", "lr=0.3"], ["0.3"]),
        (["-t", "FAILED"], ["0.9"]),
        (["--limit", "1"], ["0.9"]),
    ],
)
def test_runs_are_chosen_and_sorted(site: Home, words: list[str], rates: list[str]) -> None:
    assert [run["params"]["lr"] for run in site.json("runs", *words)] == rates


def test_an_unknown_order_names_the_known_ones(site: Home) -> None:
    done = site.run("runs", "--sort", "nope")
    assert done.returncode == 1 and "nope" in done.stderr and "acc, loss, lr" in done.stderr


def test_csv_and_parquet_have_the_same_rows(site: Home, tmp_path: Path) -> None:
    from pyarrow import (
        parquet,  # This and MLflow take seconds to import, which each worker of the tests would pay.
    )

    rows = list(csv.DictReader(io.StringIO(site.ok("runs", "--csv"))))
    assert [row["params.lr"] for row in rows] == list(RATES)
    site.ok("runs", "--parquet", str(tmp_path / "runs.parquet"))
    table = parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    assert [row["metrics.loss"] for row in table] == [float(row["metrics.loss"]) for row in rows]
    done = site.run("runs", "--parquet", "/proc/nope/runs.parquet")
    assert done.returncode == 1 and "cannot write /proc/nope/runs.parquet" in done.stderr


def test_mlflow_has_each_run_once(site: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's store in files needs no server."""
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setitem(site.environ, "MLFLOW_ALLOW_FILE_STORE", "true")
    words = ["runs", "--mlflow", f"file://{tmp_path}/mlruns", "--experiment", "vision"]
    assert "3 runs written" in site.run(*words).stderr
    assert "0 runs written to vision, 3 were there" in site.run(*words).stderr
    client = MlflowClient(tracking_uri=f"file://{tmp_path}/mlruns")
    experiment = client.get_experiment_by_name("vision")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], order_by=["params.lr"])
    assert [(run.data.params["lr"], run.info.status) for run in found] == [
        ("0.1", "FINISHED"),
        ("0.3", "FINISHED"),
        ("0.9", "FAILED"),
    ]
    points = client.get_metric_history(found[0].info.run_id, "loss")
    assert [(point.step, point.value) for point in points] == pytest.approx([(1, 1.0), (2, 0.5), (3, 1 / 3)])
