"""`warpdeck metrics`: the resource use of a job over its life, or of a node over its last minutes, hours or
day.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import format_time, print_json, print_note, print_table
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.arguments import USAGE_EXIT, Arguments
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.usage_text import used_in_words

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60
"""Number of points of a printed curve. --json has all points."""
STEPS = {"1s": 1, "10s": 10, "1min": 60}
TITLES = {
    "gpu_util_pct": ("GPU utilization", "%"),
    "gpu_mem_bytes": ("GPU memory", ""),
    "gpu_power_w": ("GPU power", "W"),
    "cpu_pct": ("CPU usage", "%"),
    "mem_bytes": ("memory", ""),
}
"""Maps a column to its title and unit. Numbers of bytes include their unit."""


def main(_: str, words: list[str]) -> int:
    """Print curves."""
    parser = Arguments(
        "warpdeck metrics",
        description="Plot the resource usage of a running or finished job, or the recent usage of a node. "
        "CPU usage is 100 % per CPU.",
        examples=(
            "warpdeck metrics 12",
            "warpdeck metrics 12_3 --json",
            "warpdeck metrics 12.0                    one step of the job",
            "warpdeck metrics --node gpu01            the last ten minutes",
            "warpdeck metrics --node gpu01 --step 1min   the last day",
        ),
    )
    parser.add_argument(
        "job",
        metavar="JOB",
        nargs="?",
        default="",
        help="12, 12_3 for a task of an array, or 12.0 for a step",
    )
    parser.add_argument(
        "--node", default="", metavar="NODE", help="show a node and each of its GPUs instead of a job"
    )
    parser.add_argument("--step", choices=STEPS, default="1s", help="with --node: time between two points")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(words)
    if bool(args.job) == bool(args.node):
        raise UserError(
            "metrics needs either a job or --node", "usage: warpdeck metrics 12", exit_code=USAGE_EXIT
        )
    with SyncClient.connect(default_paths()) as client:
        found = client.call("curves", job=args.job, node=args.node, step_s=STEPS[args.step])
    if args.json:
        print_json(found)
        return 0
    _print(found, args)
    return 0


def _print(found: dict[str, Any], args: argparse.Namespace) -> None:
    for error in found["errors"]:
        print_note(error)
    rows = [line for curve in found["curves"] for line in _lines(curve)]
    if rows:
        print_table(["WHERE", "METRIC", "MIN", "MEAN", "MAX", "CURVE"], rows, right=frozenset({2, 3, 4}))
        spans = {_span(curve) for curve in found["curves"] if curve["columns"]}
        print("\n".join(sorted(spans)))
    else:
        print("no data" + (" yet: a job is first measured after a few seconds" if args.job else ""))
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
            lines.append([place, title, *(_number(each, name, unit) for each in figures), sparkline(points)])
    return lines


def _number(value: float, name: str, unit: str) -> str:
    return format_memory(round(value)) or "0" if name.endswith("_bytes") else f"{value:.0f} {unit}"


def _span(curve: dict[str, Any]) -> str:
    size = max(len(points) for points in curve["columns"].values())
    end = curve["begin"] + size * curve["step_s"]
    return f"{format_time(curve['begin'])} to {format_time(end)}, {format_duration(size * curve['step_s'])}"


def sparkline(points: Sequence[float | None], width: int = WIDTH) -> str:
    """Draw the points as bars from 0 to the largest point. A blank means unknown."""
    chunks = [points[at * len(points) // width : (at + 1) * len(points) // width] for at in range(width)]
    if len(points) < width:
        chunks = [[point] for point in points]
    means = [[point for point in chunk if point is not None] for chunk in chunks]
    most = max((point for point in points if point is not None), default=0.0) or 1.0
    return "".join(
        BARS[min(len(BARS) - 1, int(sum(known) / len(known) / most * len(BARS)))] if known else " "
        for known in means
    ).rstrip()
