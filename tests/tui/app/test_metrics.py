"""A job's metrics page: curves of the numbers in its log, of other runs, and of its GPUs on the same axis."""

from __future__ import annotations

import math
import random
import time
from itertools import pairwise
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app
from tests.tui.app.test_viewmodels import row, words

from warpdeck.client.runs.printed_metrics import MAX_POINTS, Part, Point, Readings, readings, thinned
from warpdeck.client.runs.run import figure
from warpdeck.protocol.job_rows import CurveRow
from warpdeck_tui.screens.metrics import MetricsPane
from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.terminal.glyph_sets import ascii_text
from warpdeck_tui.viewmodels.metrics.chart import Page, Run, _reading, chart, names, run_of
from warpdeck_tui.viewmodels.metrics.ticks import ticks
from warpdeck_tui.widgets.cells import fit
from warpdeck_tui.widgets.plot import NOBODY, Curve, Frame, frame_of, means, plot, reach

DRAWN_CPU_S = 0.010
"""CPU time limit of a drawing of 100x30 cells; an idle machine needs 3 ms."""


def read(text: str, *, begin: float = 0.0, end: float = 100.0) -> Readings:
    data = text.encode()
    return readings([Part(0, data)], size_bytes=len(data), begin=begin, end=end)


def values(text: str, name: str) -> list[float]:
    return [point.value for point in read(text)[name]]


@pytest.mark.parametrize(
    ("line", "name", "value", "step"),
    [
        ("step=8 loss=0.41", "loss", 0.41, 8.0),
        ("loss: 4.1e-2 | lr: 3e-4 | step: 1_000", "loss", 0.041, 1000.0),
        ('{"loss": 0.41, "step": 8}', "loss", 0.41, 8.0),
        ("{'loss': '0.41', 'epoch': 0.5}", "loss", 0.41, 0.5),
        ("\x1b[32mtrain \x1b[0m step     32   loss 2.4130   lr 3.0e-04   3.1 it/s", "it/s", 3.1, 32.0),
        ("  5%|## | 50/1000 [00:10<03:10, 4.52it/s, val/loss=-0.5]", "val/loss", -0.5, 50.0),
        ("Epoch 3 accuracy .75", "accuracy", 0.75, 3.0),
        ("tok: 12,345.5 tokens/s", "tokens/s", 12345.5, None),
    ],
)
def test_metrics_are_read_from_common_log_formats(
    line: str, name: str, value: float, step: float | None
) -> None:
    points = read(f"{line}\n{line}\n")[name]
    assert [(point.value, point.step) for point in points] == [(value, step)] * 2


def test_a_sentence_with_a_number_gives_no_metric() -> None:
    text = "listening on port 29500\nat 12:30:41 on 8 x H100\nseed=7\nloading 3 shards\n" * 1
    assert read(text) == {}
    assert read("took 3 s\ntook 4 s\n") == {}


def test_the_states_of_a_progress_bar_are_all_points() -> None:
    assert values("loss=3\rloss=2\rloss=1\n", "loss") == [3, 2, 1]


def test_nan_values_are_kept_and_counted() -> None:
    found = read("step=1 loss=1.5\nstep=2 loss=nan\nstep=3 loss=NaN\n")
    assert [math.isnan(point.value) for point in found["loss"]] == [False, True, True]
    run = Run("1", "1", "llama", found)
    title = words(chart(Page((run,), "loss", by_step=True), width=80, height=20)[0])
    assert "⚠ 2 nans, first at step 2" in title


def test_the_time_of_a_point_is_its_timestamp_or_its_position_in_the_file() -> None:
    even = read("loss=1\nloss=2\nloss=3\nloss=4\n", begin=1000.0, end=1100.0)["loss"]
    assert [point.at_s for point in even] == [0.0, 25.0, 50.0, 75.0]
    begin = time.mktime((2026, 3, 1, 12, 0, 0, 0, 0, -1))
    stamped = read("2026-03-01 12:00:05 loss=1\n2026-03-01T12:01:00 loss=2\n", begin=begin, end=begin + 1)
    assert [point.at_s for point in stamped["loss"]] == [5.0, 60.0]


def test_a_part_of_the_log_skips_only_its_incomplete_first_line() -> None:
    part = Part(500, b"oss=9\nloss=1\nloss=2\n")
    found = readings([part], size_bytes=1000, begin=0.0, end=100.0)["loss"]
    assert [(round(point.at_s, 1), point.value) for point in found] == [(50.6, 1.0), (51.3, 2.0)]


@pytest.mark.parametrize("unit", ["1", "a.", "1,", "loss=1", "loss ", "1_", "1/"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_parsing_time_of_hostile_lines_is_linear(unit: str, end: str) -> None:
    text = (unit * (4000 // len(unit)) + end) * 60
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 3.0


def test_the_loss_comes_first_and_the_number_of_metrics_is_limited() -> None:
    text = "".join(f"m{number}=1 " for number in range(500)) + "\n"
    assert len(read(text * 2)) == 60
    assert list(read("acc=1 val_loss=2 loss=3\n" * 2)) == ["loss", "val_loss", "acc"]


def test_a_plot_has_the_requested_size_and_keeps_all_peaks() -> None:
    rng = random.Random(4)
    for _ in range(50):
        curve = [(float(x), rng.uniform(-1, 1)) for x in range(rng.randint(1, 3000))]
        curve[len(curve) // 2] = (curve[len(curve) // 2][0], 50.0)
        ready = Curve.of(curve)
        frame = frame_of([ready])
        assert frame is not None and frame.high >= 50.0
        width, height = rng.randint(1, 90), rng.randint(1, 30)
        drawn = plot([ready], frame, width=width, height=height)
        assert [(len(row.text), len(row.curves)) for row in drawn] == [(width, width)] * height
        assert 0 in drawn[0].curves and 0 in drawn[-1].curves
        tops, bottoms = reach(ready, frame, 2 * width, 4 * height)
        drawn_columns = [
            at for at, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)) if top <= bottom
        ]
        assert len(curve) == 1 or drawn_columns == list(range(2 * width))
        joined = [max(tops[at : at + 2]) <= min(bottoms[at : at + 2]) + 1 for at in drawn_columns[:-1]]
        assert all(joined), "a curve without gaps must be drawn without holes"


def test_a_straight_line_is_drawn_from_corner_to_corner() -> None:
    drawn = plot([Curve([0, 10], [0, 10])], Frame(0, 10, 0, 10), width=5, height=3)
    lines = [ascii_text(row.text) for row in drawn]
    assert [line.strip() != "" for line in lines] == [True] * 3
    assert lines[2][0] != " " and lines[0][4] != " " and lines[0][0] == " "


def test_a_gap_of_nan_values_is_not_connected() -> None:
    drawn = plot([Curve([0, 1, 10], [1, math.nan, 1])], Frame(0, 10, 0, 2), width=5, height=1)
    assert drawn[0].curves == [0, NOBODY, NOBODY, NOBODY, 0]
    assert drawn[0].pieces()[1] == ("   ", NOBODY)


def test_means_fill_gaps_between_measurements_only() -> None:
    assert means(Curve([0, 0.5, 4], [10, 30, 50]), Frame(0, 8, 0, 1), width=8) == [
        20,
        20,
        20,
        20,
        50,
        *[None] * 3,
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.41274, "0.4127"), (2.9e-4, "2.9e-04"), (31400, "31400"), (1e9, "1.0e+09")]
)  # fmt: skip
def test_numbers_are_formatted_briefly(value: float, text: str) -> None:
    assert figure(value) == text


def falling(key: str, *, factor: float = 1.0) -> Run:
    points = tuple(Point(float(at), factor * 3 / (1 + at / 50), step=float(4 * at)) for at in range(600))
    return Run(key, key, "llama", {"loss": points, "lr": points}, Curve(range(600), [90.0] * 600))


@pytest.mark.parametrize(("width", "height"), [(80, 20), (200, 55), (30, 8)])
@pytest.mark.parametrize("by_step", [False, True])
def test_the_chart_fits_its_size(width: int, height: int, by_step: bool) -> None:
    runs = (falling("1"), falling("2", factor=2.0), falling("3", factor=0.5))
    lines = chart(Page(runs, "loss", by_step=by_step), width=width, height=height)
    assert len(lines) == height
    assert all(len(fit(words(line), width)) == width for line in lines)
    assert all(len(words(line)) < width for line in lines[1:-3])


def test_runs_have_letters_and_gpu_curves_appear_only_over_time() -> None:
    runs = (falling("1"), falling("2", factor=2.0))
    text = "\n".join(words(line) for line in chart(Page(runs, "loss"), width=90, height=24))
    assert "a job 1 llama  0.2311" in text and "b job 2 llama" in text and "GPU 90%" in text
    drawing = text.split("\n")[1:-4]
    assert sum(line.count("a") for line in drawing) == sum(line.count("b") for line in drawing) == 1
    three = (falling("1"), falling("2", factor=2.0), falling("3"))
    drawing = [words(line) for line in chart(Page(three, "loss"), width=90, height=24)[1:-5]]
    assert [sum(line.count(letter) for line in drawing) for letter in "abc"] == [1, 1, 1]
    by_step = "\n".join(words(line) for line in chart(Page(runs, "loss", by_step=True), width=90, height=24))
    assert "GPU" not in by_step and "╵2396" not in by_step and "step ╵0" in by_step


def test_a_smoothed_curve_keeps_its_gaps_and_the_title_its_true_range() -> None:
    ys = [10 + (5.0 if at % 2 else -5.0) for at in range(200)]
    ys[100] = math.nan
    smooth = Curve(range(200), ys).smoothed()
    assert (smooth.parts, list(smooth.gaps)) == ([(0, 100), (100, 199)], [100])
    assert 8 < smooth.least < smooth.most < 12
    assert list(Curve(range(9), [1.0] * 9).smoothed().ys) == [1.0] * 9
    assert not Curve().smoothed()
    points = tuple(Point(float(at), y, step=None) for at, y in enumerate(ys))
    page = Page((Run("1", "1", "noisy", {"loss": points}),), "loss", smooth=True)
    title = words(chart(page, width=90, height=24)[0])
    assert "min 5   max 15" in title and title.rstrip().endswith("smoothed")


@pytest.mark.parametrize("by_step", [False, True])
def test_the_axis_of_a_short_run_repeats_no_label(by_step: bool) -> None:
    points = tuple(Point(at, 3 - at, step=at) for at in (0.0, 1.0, 2.0))
    axis = words(
        chart(
            Page((Run("1", "1", "short", {"loss": points}),), "loss", by_step=by_step), width=200, height=24
        )[-1]
    )
    ticks = [tick.strip() for tick in axis.split("╵")[1:]]
    assert ticks == (["0", "1"] if by_step else ["0s", "1s"])


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (220.0, ["0s", "1m", "2m", "3m"]),
        (150.0, ["0s", "30s", "1m", "1m30", "2m"]),
        (7_000.0, ["0s", "30m", "1h", "1h30"]),
        (3.5 * 86_400, ["0s", "1d", "2d", "3d"]),
    ],
)
def test_ticks_are_at_round_times_of_equal_distance(seconds: float, labels: list[str]) -> None:
    found = ticks(0.0, seconds, 80, apart=16, is_time=True)
    assert [each.label for each in found] == labels
    columns = [each.column for each in found]
    gaps = [right - left for left, right in pairwise(columns)]
    assert columns[0] == 0 and min(gaps) >= 16 and max(gaps) - min(gaps) <= 1
    assert all(each.column == round(80 * SECONDS[each.label] / seconds) for each in found)


SECONDS = {
    "0s": 0,
    "30s": 30,
    "1m": 60,
    "1m30": 90,
    "2m": 120,
    "3m": 180,
    "30m": 1800,
    "1h": 3600,
    "1h30": 5400,
}
SECONDS |= {"1d": 86_400, "2d": 172_800, "3d": 259_200}


def noisy(key: str) -> Run:
    """Return a run with the maximum number of points, and five hours of GPU measurements."""
    rng = random.Random(key)
    points = tuple(
        Point(9.0 * at, 3 / (1 + at / 50) + rng.gauss(0, 0.1), float(at)) for at in range(MAX_POINTS)
    )
    gpus = Curve(range(0, 18_000, 5), [90.0] * 3600)
    return Run(key, key, "llama", {"loss": points}, gpus, gpus)


@pytest.mark.parametrize("by_step", [False, True])
def test_four_overlaid_runs_are_drawn_in_ten_milliseconds(by_step: bool) -> None:
    page = Page(tuple(noisy(key) for key in "abcd"), "loss", by_step=by_step)

    def cost_s() -> float:
        begun = time.process_time()
        chart(page, width=100, height=30)
        return time.process_time() - begun

    cost_s()  # the first call builds the curves
    costs = []
    for _ in range(7):
        reach.cache_clear()
        costs.append(cost_s())
    assert min(costs) < DRAWN_CPU_S
    known = reach.cache_info().misses
    cost_s()
    assert reach.cache_info().misses == known, "unchanged curves stay in the cache"


def test_nodes_contribute_mean_utilization_and_total_power() -> None:
    curves = [
        CurveRow(node=node, begin=100.0, step_s=10.0, columns={"gpu_util_pct": (use, None), "gpu_power_w": (500.0,)})
        for node, use in (("n1", 40.0), ("n2", 60.0))
    ]  # fmt: skip
    run = run_of(row(start=90.0), {}, curves)
    assert (list(run.use.xs), list(run.use.ys)) == ([10.0, 10.0], [40.0, 60.0])
    assert list(run.power.ys) == [1000.0, 1000.0]
    assert names([run]) == []


async def test_the_page_draws_a_running_jobs_metrics_with_its_gpus(folder: Path) -> None:
    async with run_app(folder, size=(100, 30)) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("step      8")
        await ui.press("m")
        await ui.shows("[Metrics]", "loss", "min", "1 of 3", "GPU", "time ╵0s")
        await ui.press("v")
        await ui.shows("2 of 3")
        await ui.press("x")
        await ui.shows("step ╵4")
        await ui.press("tilde")
        await ui.shows("2 of 3   smoothed")


async def test_another_run_is_overlaid_and_removed(folder: Path) -> None:
    async with run_app(folder, size=(100, 30)) as ui:
        ui.cluster.ends["llama"] = (3.0, 0)
        await ui.cluster.submit("llama")
        await ui.shows("✓ CD")
        await ui.cluster.submit("llama-2")
        await ui.shows("● R")
        await ui.press("g", "enter", "m", "plus")
        await ui.shows("Select a run to compare with", "NAME", "llama")
        await ui.press("enter")
        await ui.shows("a job 2 llama-2", "b job 1 llama")
        await ui.press("minus")
        await ui.hides("b job 1 llama")
        await ui.press("minus")
        await ui.shows_notification("No run to remove")


def test_a_long_curve_is_thinned_but_keeps_peaks_ends_and_nans() -> None:
    text = "".join(f"loss={at % 7}\n" for at in range(40_000))
    text = text.replace("loss=3\n", "loss=1000\n", 1).replace("loss=5\n", "loss=nan\n", 1)
    points = read(text)["loss"]
    assert len(points) <= MAX_POINTS + 4
    assert max(point.value for point in points) == 1000
    assert sum(math.isnan(point.value) for point in points) == 1
    assert (points[0].value, points[-1].value) == (0, 39_999 % 7)
    assert [point.at_s for point in points] == sorted(point.at_s for point in points)
    assert thinned(points[:10]) == points[:10]


async def test_an_unchanged_chart_is_not_drawn_again(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["done"] = (1.0, 0)
        await ui.cluster.submit("done")
        await ui.shows("✓ CD")
        await ui.press("enter", "m")
        await ui.shows("time ╵")
        screen = ui.app.screen
        assert isinstance(screen, DeckScreen)
        pane = screen.query_one(MetricsPane)
        made: list[tuple[int, int]] = []
        make = pane._make
        pane._make = lambda width, height: made.append((width, height)) or make(width, height)
        screen.draw()
        screen.draw()
        assert made == []
        await ui.press("x")
        assert pane._make is not make


async def test_a_wide_page_shows_the_curve_beside_the_log(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("[Log]", "step      8", "min", "1 of 3", "time ╵0s", "requested", "v Next")
        await ui.press("v")
        await ui.shows("[Log]", "2 of 3")
        await ui.press("m")
        await ui.shows("[Metrics]", "2 of 3")
        await ui.hides("step      8")
        await ui.press("l")
        await ui.shows("[Log]", "step      8", "2 of 3")
        await ui.pilot.resize_terminal(80, 24)
        await ui.hides("2 of 3")


async def test_a_log_without_metrics_has_no_curve_beside_it(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        await ui.cluster.submit(
            "tokenize", argv=("hostname",)
        )  # A simulated job of this name writes no metrics.
        await ui.shows("● R")
        await ui.press("enter")
        await ui.shows("[Log]", "gpu01: tokenize", "requested")
        assert "No values to plot" not in ui.text() and "v Next" not in ui.line(-1)
        await ui.press("v")
        await ui.shows("[Log]")


def test_readings_of_gpus_have_at_most_five_characters() -> None:
    told = [
        _reading(value, unit)
        for value, unit in ((92, "%"), (680.2, "W"), (2528, "W"), (999.7, "W"), (41_960, "W"))
    ]
    assert told == ["92%", "680W", "2.5kW", "1.0kW", "42kW"]
