"""The table of runs: parameters and metrics of jobs as columns, sorted and filtered like the queue."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app
from tests.tui.app.test_viewmodels import NOW, row

from warpdeck.client.runs.parameters import parameters, varying
from warpdeck.client.runs.printed_metrics import Point, Readings
from warpdeck.client.runs.run import RunData, chosen
from warpdeck.model import ArraySpec
from warpdeck.notation.request.sweep import with_sweep
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.viewmodels.jobs.order import Order
from warpdeck_tui.viewmodels.runs.table import (
    RunRows,
    best_words,
    curve,
    ordered,
    run_columns,
)


def points(*values: float) -> tuple[Point, ...]:
    return tuple(Point(float(at), value) for at, value in enumerate(values))


def run(number: int, *, lr: str, losses: tuple[float, ...] = (), **fields: object) -> RunData:
    readings: Readings = {"loss": points(*losses), "acc": points(0.5, 0.9)} if losses else {}
    job = row(number, name="vit", start=NOW - 60, state="RUNNING", **fields)
    return RunData(job, {"lr": lr, "seed": "7"}, readings, is_read=True)


RUNS = [
    run(1, lr="1e-1", losses=(3.0, 2.0, 2.5)),
    run(2, lr="1e-3", losses=(3.0, 1.0)),
    run(3, lr="1e-2"),
]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"script": "#!/bin/sh\n#SBATCH --gpus=2\nsrun python t.py --lr 3e-4 --bs=64 model.dim=8\n"},
         {"lr": "3e-4", "bs": "64", "model.dim": "8"}),
        ({"argv": ["python", "t.py", "--name", "a b", "--flag", "--seed", "3"]}, {"name": "a", "seed": "3"}),
        ({"script": "python t.py --lr $lr --out \"x y\"\n"}, {"out": "x y"}),
        ({"script": "export A=1\necho done\n"}, {}),
    ],
)  # fmt: skip
def test_parameters_are_the_options_of_the_commands(fields: dict[str, object], found: dict[str, str]) -> None:
    assert parameters(JobDetail(row=row(), **fields)) == found  # type: ignore[arg-type]


def test_the_values_of_a_sweep_come_first() -> None:
    detail = JobDetail(row=row(sweep="lr=0.1 seed=3"), script="python t.py --lr $lr --epochs 5\n")
    assert list(parameters(detail).items()) == [("lr", "0.1"), ("seed", "3"), ("epochs", "5")]
    assert varying([{"lr": "1", "seed": "7"}, {"lr": "2", "seed": "7"}, {"lr": "1"}]) == ["lr", "seed"]


def test_the_values_of_a_trial_are_parameters() -> None:
    script = with_sweep("#!/bin/sh\npython train.py\n", "lr=0.1 kind='a b'")
    assert parameters(JobDetail(row=row(), script=script)) == {"lr": "0.1", "kind": "a b"}


def test_only_parameters_that_differ_are_columns_and_the_loss_comes_first() -> None:
    columns = run_columns(RUNS)
    titles = [column.column.title for column in columns.values()]
    assert titles == ["JOB", "STATE", "TIME", "LR", "LOSS", "MIN", "CURVE", "ACC", "NODELIST(REASON)"]
    cells = [cell.text for cell in RunRows(RUNS, columns, now=NOW).row(0)]
    assert cells[3:6] == ["1e-1", "2.5", "2"] and cells[7] == "0.9"
    assert [cell.text for cell in RunRows(RUNS, columns, now=NOW).row(2)][4:8] == ["", "", "", ""]
    unread = [RUNS[0], RUNS[2]._replace(is_read=False)]
    assert "…" in [cell.text for cell in RunRows(unread, run_columns(unread), now=NOW).row(1)]


def test_runs_are_sorted_by_numbers_with_unknown_values_last() -> None:
    columns = run_columns(RUNS)

    def order(column: str, *, descending: bool = False) -> list[int]:
        return [each.row.id for each in ordered(RUNS, columns, Order(column, descending))]

    assert order("param lr") == [2, 3, 1]
    assert order("last loss") == [2, 1, 3]
    assert order("last loss", descending=True) == [1, 2, 3]
    assert order("") == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [1, 2, 3]),
        ("loss<2", [2]),
        ("loss>=1", [1, 2]),
        ("!loss<2", [1]),
        ("lr<0.05", [2, 3]),
        ("lr=1e-3", [2]),
        ("acc>0.8 !lr=1e-3", [1]),
        ("loss<", [1, 2, 3]),
        ("vit", [1, 2, 3]),
        ("nothing", []),
    ],
)
def test_runs_are_filtered_by_parameters_and_metrics(text: str, found: list[int]) -> None:
    assert [each.row.id for each in chosen(RUNS, text, me="ann", now=NOW)] == found


def test_the_best_run_is_named_with_its_values() -> None:
    assert best_words(RUNS) == "best loss 1: 2 with lr=1e-3"
    assert best_words(RUNS[:1]) == ""
    assert len(curve(RUNS[0], "loss").strip()) == 3 and curve(RUNS[2], "loss") == ""


async def test_the_runs_of_a_sweep_are_listed_sorted_and_filtered(folder: Path) -> None:
    async with run_app(folder, size=(140, 30)) as ui:
        script = with_sweep("#!/bin/sh\nsrun python train.py --lr $lr\n", "lr=0.1,0.2,0.3")
        await ui.cluster.submit("llama", script=script, array=ArraySpec(ranges=((0, 2, 1),)))
        await ui.shows("3 R")
        await ui.press("B")
        await ui.shows("Runs of array 1 llama", "3 runs", "LR", "LOSS", "MIN", "best loss")
        await ui.shows("0.1", "0.2", "0.3")
        await ui.pilot.resize_terminal(200, 50)
        await ui.shows("CURVE", "partition main")
        await ui.pilot.resize_terminal(140, 30)
        await ui.hides("partition main")
        await ui.press("slash", *"lr>0.1", "enter")
        await ui.hides("1_0")
        await ui.press("escape")
        await ui.shows("1_0")
        await ui.press("s", "s", "s", "s")
        await ui.shows("LR▲")
        await ui.press("S")
        await ui.shows("LR▼")
        await ui.until(lambda: ui.text().index("1_2 ") < ui.text().index("1_0 "), "the largest value first")
        await ui.press("g", "space", "space", "m")
        await ui.shows("[Metrics]", "a job 1_2", "b job 1_1")
        await ui.press("escape")
        await ui.shows("Runs of array 1", "2 marked")
        await ui.press("escape", "escape")
        await ui.shows("1_[0-2]")


async def test_the_runs_of_a_name_include_ended_jobs(folder: Path) -> None:
    async with run_app(folder, size=(140, 30)) as ui:
        ui.cluster.ends["llama"] = (3.0, 0)
        await ui.cluster.submit("llama", script="#!/bin/sh\npython train.py --seed 1\n")
        await ui.cluster.submit("llama", script="#!/bin/sh\npython train.py --seed 2\n")
        await ui.cluster.submit("other")
        await ui.shows("✓ CD", "other")
        await ui.press("4")
        await ui.shows("llama")
        await ui.press("B")
        await ui.shows("Runs of llama", "2 runs", "SEED", "LOSS")
        assert "other" not in ui.text()
        await ui.press("enter")
        await ui.shows("job 1", "COMPLETED")
        await ui.press("B")
        await ui.shows("Runs of llama")
