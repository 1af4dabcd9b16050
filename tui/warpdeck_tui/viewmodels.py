"""From the controller's rows to what the widgets draw. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warpdeck.notation.memory import format_memory
from warpdeck.notation.times import format_duration

JobRow = Mapping[str, Any]
NodeRow = Mapping[str, Any]

GLYPHS = {
    "PENDING": "◌",
    "CONFIGURING": "◔",
    "RUNNING": "●",
    "COMPLETING": "◕",
    "COMPLETED": "✓",
    "CANCELLED": "⊘",
    "FAILED": "✗",
    "TIMEOUT": "◷",
    "NODE_FAIL": "⚠",
    "OUT_OF_MEMORY": "✗",
}
"""A glyph beside Slurm's letters: colour never carries the meaning alone."""
BAR = " ▏▎▍▌▋▊▉█"
METRICS = ("util", "memory", "power", "temp", "owner")


class Cell(NamedTuple):
    """Text with the name of its style ("" is plain): state names, muted, accent, warn."""

    text: str
    style: str = ""


class Row(NamedTuple):
    """A table row. `key` survives updates."""

    key: str
    cells: tuple[Cell, ...]


class GpuCell(NamedTuple):
    """A cell of the heat map: `level` 0..7 picks its colour, -1 is unknown."""

    key: tuple[str, int]
    text: str
    level: int


def bar(percent: float | None, width: int) -> str:
    """A bar of so many characters; dots where the value is unknown."""
    if percent is None:
        return "·" * width
    eighths = round(max(0.0, min(100.0, percent)) / 100 * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BAR[rest] if rest else "")).ljust(width)


def queue_rows(rows: Sequence[JobRow], *, now: float, user: str | None, text: str) -> list[Row]:
    """The queue: running first, then waiting, then ended; own jobs only if `user` is given; filtered by `text`."""
    order = {"RUNNING": 0, "COMPLETING": 0, "CONFIGURING": 1, "PENDING": 2}
    wanted = [row for row in rows if user in (None, row["user"]) and matches(row, text)]
    wanted.sort(key=lambda row: (order.get(row["state"], 3), -row["id"] if row["end"] else row["id"]))
    return [queue_row(row, now) for row in wanted]


def queue_row(row: JobRow, now: float) -> Row:
    """One line of the queue."""
    state = str(row["state"])
    ran = 0.0 if row["start"] is None else (row["end"] or now) - row["start"]
    return Row(
        str(row["id"]),
        (
            Cell(str(row["label"]), "accent"),
            Cell(f"{GLYPHS.get(state, '?')} {row['state_short']}", state),
            Cell(str(row["name"])),
            Cell(str(row["user"]), "muted"),
            Cell(str(row["gpus"] or "")),
            Cell(format_duration(ran) if row["start"] else ""),
            Cell(progress(row, ran), "muted"),
            Cell(bar(row["gpu_util_pct"], 5) if row["gpus"] and state == "RUNNING" else "", "accent"),
            Cell(where(row, now), "muted" if row["end"] else ""),
        ),
    )


def progress(row: JobRow, ran: float) -> str:
    """How much of the time limit is gone."""
    limit = row["time_limit_s"]
    if not limit or row["start"] is None or row["end"]:
        return ""
    return bar(100 * ran / limit, 6)


def where(row: JobRow, now: float) -> str:
    """Where it runs, why it waits, or how it ended."""
    why = row.get("why")
    if why:
        return str(why["sentence"] or why["code"])
    if row["end"]:
        cause = str(row["exit_cause"] or "")
        return f"{row['node_list']} exit {row['exit_code']} {cause}".strip()
    return str(row["node_list"])


def matches(row: JobRow, text: str) -> bool:
    """The filter: every word must be found in id, name, user, state or nodes."""
    hay = f"{row['label']} {row['name']} {row['user']} {row['state']} {row['state_short']} {row['node_list']}".lower()
    return all(word in hay for word in text.lower().split())


def gpu_lines(nodes: Sequence[NodeRow], metric: str) -> list[tuple[str, tuple[GpuCell, ...]]]:
    """The heat map: a line a node."""
    lines = []
    for node in sorted(nodes, key=lambda each: str(each["name"])):
        down = node["state"] in ("down", "connecting")
        cells = tuple(
            GpuCell((str(node["name"]), int(gpu["index"])), *gpu_value(gpu, metric, down=down))
            for gpu in node["gpus"]
        )
        lines.append((f"{node['name']} {node['state']}", cells))
    return lines


def gpu_value(gpu: Mapping[str, Any], metric: str, *, down: bool) -> tuple[str, int]:
    """(text of five characters, level) of a GPU in the metric."""
    if down or gpu["error"]:
        return "  !  ", -1
    if metric == "owner":
        name = gpu["job"] or ("alien" if gpu["blocked"] else "free")
        return f"{name[:5]:^5}", 6 if gpu["job"] else 3 if gpu["blocked"] else 0
    value, most, unit = {
        "util": (gpu["util_pct"], 100.0, "%"),
        "memory": (
            None if gpu["mem_used_bytes"] is None else 100 * gpu["mem_used_bytes"] / max(1, gpu["mem_bytes"]),
            100.0,
            "%",
        ),
        "power": (gpu["power_w"], 700.0, "W"),
        "temp": (gpu["temp_c"], 90.0, "°"),
    }[metric]
    if value is None:
        return "  ?  ", -1
    mark = "!" if gpu["blocked"] else "*" if gpu["job"] else " "
    return f"{value:>3.0f}{unit}{mark}", max(0, min(7, int(value / most * 8)))


def gpu_detail(node: NodeRow, index: int) -> list[str]:
    """What is said of the GPU under the cursor."""
    gpu = next((each for each in node["gpus"] if each["index"] == index), None)
    if gpu is None:
        return []

    def known(value: Any, unit: str) -> str:
        return "?" if value is None else f"{value:.0f} {unit}"

    used = format_memory(gpu["mem_used_bytes"]) or "?"
    lines = [
        f"{node['name']} GPU {index}  {gpu['name']}",
        f"{known(gpu['util_pct'], '%')}  {used} of {format_memory(gpu['mem_bytes'])}  "
        f"{known(gpu['power_w'], 'W')}  {known(gpu['temp_c'], 'C')}",
        f"job {gpu['job']} of {gpu['job_user']}" if gpu["job"] else gpu["blocked"] or gpu["error"] or "free",
    ]
    for process in gpu["processes"]:
        whose = f"job {process['job']}" if process["job"] else "outside the queue"
        lines.append(
            f"  {process['pid']} {process['command']} {process['user']} {format_memory(process['mem_bytes'])}  {whose}"
        )
    return lines


def node_lines(node: NodeRow) -> list[str]:
    """What is said of a node."""
    cpu = "?" if node["cpu_pct"] is None else f"{node['cpu_pct']:.0f}%"
    mem = format_memory(node["mem_used_bytes"]) or "?"
    lines = [
        f"{node['name']}  {node['state']}" + (f": {node['reason']}" if node["reason"] else ""),
        f"CPUs {node['cpus_used']}/{node['cpus']} given, {cpu} busy   memory {mem} of {format_memory(node['mem_bytes'])}",
    ]
    if not node["gpus"]:
        lines.append(node["gpu_error"] or "no NVIDIA GPU")
    if node["jobs"]:
        lines.append("jobs " + ", ".join(node["jobs"][:8]))
    return lines


def job_lines(detail: Mapping[str, Any]) -> list[str]:
    """The facts of a job's page."""
    row = detail["row"]
    limit = "none" if row["time_limit_s"] is None else format_duration(row["time_limit_s"])
    lines = [
        f"state     {row['state']}"
        + (f"  exit {row['exit_code']} {row['exit_cause']}" if row["end"] else ""),
        f"asked     {row['nodes']} nodes, {row['cpus']} CPUs, {row['gpus']} GPUs, limit {limit}",
    ]
    if row.get("why"):
        lines.append(f"why       {row['why']['code']}: {row['why']['sentence']}")
    if detail["message"]:
        lines.append(f"message   {detail['message']}")
    lines += [f"nodes     {row['node_list']}"] if row["node_list"] else []
    for gpu in detail["gpus"]:
        lines.append(
            f"GPU       {gpu['node']}:{gpu['index']} {bar(gpu['util_pct'], 10)} {format_memory(gpu['mem_used_bytes'])}"
        )
    lines += [f"runs in   {detail['work_dir']}"] if detail["work_dir"] else []
    lines += [f"stdout    {detail['stdout']}"] if detail["stdout"] else []
    snapshot = detail.get("snapshot")
    if snapshot:
        changed = " with uncommitted changes" if snapshot["dirty"] else ""
        lines.append(
            f"code      tree {snapshot['tree'][:12]}  commit {snapshot['head'][:12] or 'none'}{changed}"
        )
    else:
        lines.append("code      no snapshot")
    return lines + ["", *(f"  {event['text']}" for event in detail["events"])]
