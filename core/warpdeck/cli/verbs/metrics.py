"""`warpdeck metrics`: the resource use of a job over its life, or of a node over its last minutes, hours or
day.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpdeck.base.output import format_time, print_note, print_table
from warpdeck.cli.arguments import ANY_JOBS, JSON, Argument, UsageError
from warpdeck.cli.verb import Verb
from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.usage_text import used_in_words

if TYPE_CHECKING:
    from argparse import Namespace


BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60
"""Number of points of a printed curve. --json has all points."""
FULL_PCT = 100.0
HEADROOM = 1.25
"""Height of a curve without a natural maximum, as a multiple of its largest value."""
STEPS = {"1s": 1, "10s": 10, "1min": 60}
TITLES = {
    "gpu_util_pct": ("GPU utilization", "%"),
    "gpu_mem_bytes": ("GPU memory", ""),
    "gpu_power_w": ("GPU power", "W"),
    "cpu_pct": ("CPU usage", "%"),
    "mem_bytes": ("memory", ""),
}
"""Maps a column to its title and unit. Numbers of bytes include their unit."""


def _check(args: Namespace) -> None:
    if bool(args.job) == bool(args.node):
        raise UsageError("metrics needs either a job or --node", "usage: warpdeck metrics 12")


def _print(found: dict[str, Any], args: Namespace) -> None:
    """Print the curves of a job or a node as charts."""
    for error in found["errors"]:
        print_note(error)
    rows = [line for curve in found["curves"] for line in _lines(curve)]
    if rows:
        print_table(["WHERE", "METRIC", "MIN", "MEAN", "MAX", "CURVE"], rows, right=frozenset({2, 3, 4}))
        spans = {_span(curve) for curve in found["curves"] if curve["columns"]}
        print("\n".join(sorted(spans)))
    else:
        print(
            "no measurements"
            + ("; a job is first measured a few seconds after its start" if args.job else "")
        )
    if found["used"]:
        print("used: " + (", ".join(used_in_words(**found["used"])) or "no measurements"))


def _lines(curve: dict[str, Any]) -> list[list[str]]:
    place = curve["node"] if curve["gpu"] is None else f"{curve['node']} GPU {curve['gpu']}"
    lines = []
    for name, (title, unit) in TITLES.items():
        points = curve["columns"].get(name, ())
        known = [point for point in points if point is not None]
        if known:
            figures = (min(known), sum(known) / len(known), max(known))
            drawn = sparkline(points, height=_height(max(known), unit))
            lines.append([place, title, *(_number(each, name, unit) for each in figures), drawn])
    return lines


def _number(value: float, name: str, unit: str) -> str:
    return format_memory(round(value)) or "0" if name.endswith("_bytes") else f"{value:.0f} {unit}"


def _span(curve: dict[str, Any]) -> str:
    size = max(len(points) for points in curve["columns"].values())
    end = curve["begin"] + size * curve["step_s"]
    return f"{format_time(curve['begin'])} to {format_time(end)}, {format_duration(size * curve['step_s'])}"


def _height(most: float, unit: str) -> float:
    """Return the value at the upper edge of a curve, so that a constant value does not look like a full bar."""
    return FULL_PCT if unit == "%" and most <= FULL_PCT else most * HEADROOM or 1.0


def sparkline(points: Sequence[float | None], *, height: float, width: int = WIDTH) -> str:
    """Draw the points as bars from 0 to `height`. A blank means unknown."""
    chunks = [points[at * len(points) // width : (at + 1) * len(points) // width] for at in range(width)]
    if len(points) < width:
        chunks = [[point] for point in points]
    means = [[point for point in chunk if point is not None] for chunk in chunks]
    return "".join(
        BARS[min(len(BARS) - 1, int(sum(known) / len(known) / height * len(BARS)))] if known else " "
        for known in means
    ).rstrip()


VERBS = (
    Verb(
        "metrics",
        "Plot the resource usage of a running or finished job, or the recent usage of a node.\n"
        "A job that keeps two CPUs busy has a CPU usage of 200 %.",
        (
            Argument("[JOB]", "job id, such as 12; 12_3 for a task of an array; 12.0 for a step", completes=ANY_JOBS),
            Argument("--node NODE", "show a node and each of its GPUs instead of a job"),
            Argument("--step {1s,10s,1min}", "with --node: time between two points", default="1s"),
            JSON,
        ),
        examples=(
            "warpdeck metrics 12",
            "warpdeck metrics 12_3 --json",
            "warpdeck metrics 12.0                    one step of the job",
            "warpdeck metrics --node gpu01            the last ten minutes",
            "warpdeck metrics --node gpu01 --step 1min   the last day",
        ),
        check=_check, ask=lambda client, args: client.call("curves", job=args.job, node=args.node, step_s=STEPS[args.step]),
        show=_print,
    ),
)  # fmt: skip
