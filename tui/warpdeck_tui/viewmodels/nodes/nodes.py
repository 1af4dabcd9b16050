"""The rows of the node table, and the details of the node or GPU under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.viewmodels.cells import TITLE_WIDTH, Cell, Line, fact, known, memory, plural, thin_bar
from warpdeck_tui.widgets.cell_grid import node_role
from warpdeck_tui.widgets.cells import Gauge, printable

from .gpu_map import CLOSED, UNKNOWN_JOB, is_unmeasured

MAX_JOBS_NAMED = 8
"""Largest number of jobs of a node in its details."""


def summary(nodes: Sequence[NodeRow]) -> str:
    """Return a summary, such as "8 nodes (1 down), 59 of 64 GPUs allocated, 2 blocked"."""
    gpus = [gpu for node in nodes for gpu in node.gpus]
    held = sum(bool(gpu.job) for gpu in gpus)
    blocked = sum(bool(gpu.blocked) for gpu in gpus)
    down = sum(node.state == "down" for node in nodes)
    words = plural(len(nodes), "node") + (f" ({down} down)" if down else "")
    if gpus:
        words += f", {held} of {plural(len(gpus), 'GPU')} allocated"
    return words + (f", {blocked} blocked" if blocked else "")


def fragmentation(nodes: Sequence[NodeRow]) -> str:
    """Return the free GPUs available to a large job.

    An example is "free: 2 whole nodes, 5 GPUs on 3 others, at most 4 per node".
    """
    whole = 0
    parts: list[int] = []
    for node in nodes:
        free = sum(not (gpu.job or gpu.blocked or gpu.error) for gpu in node.gpus)
        if not free or node.state in CLOSED:
            continue
        if free == len(node.gpus):
            whole += 1
        else:
            parts.append(free)
    words = [plural(whole, "whole node")] if whole else []
    if parts:
        others = (
            f"{len(parts)} other{'' if len(parts) == 1 else 's'}" if whole else plural(len(parts), "node")
        )
        most = f", at most {max(parts)} per node" if len(parts) > 1 else ""
        words.append(f"{plural(sum(parts), 'GPU')} on {others}{most}")
    return f"free: {', '.join(words)}" if words else "no free GPUs"


def node_row(node: NodeRow) -> tuple[str, tuple[Cell | Gauge, ...]]:
    """Return (key, cells): name, state, CPUs, load, memory, GPUs, number of jobs, and the jobs or the
    reason.
    """
    held = sum(bool(gpu.job) for gpu in node.gpus)
    kind = node.gpus[0].type if node.gpus else ""
    used = 100 * (node.mem_used_bytes or 0) / max(1, node.mem_bytes)
    return (
        node.name,
        (
            Cell(node.name, "accent"),
            Cell(node.state, node_role(node.state)),
            Cell(f"{node.cpus_used}/{node.cpus}"),
            _percent(node.cpu_pct),
            _percent(None if node.mem_used_bytes is None else used),
            Cell(f"{held}/{len(node.gpus)} {kind}" if node.gpus else "none"),
            Cell(str(len(node.jobs))),
            Cell(printable(node.reason or ", ".join(node.jobs)), "muted"),
        ),
    )


def _percent(value: float | None) -> Cell | Gauge:
    return Cell("?", "muted") if value is None else Gauge(f"{value:.0f}%", "muted", round(value))


def node_lines(node: NodeRow) -> list[Line]:
    """Return the details of a node."""
    title = (Cell(printable(node.name), "accent"), Cell(f"  {node.state}", node_role(node.state)))
    lines: list[Line] = [title]
    if node.reason:
        lines.append((Cell(printable(node.reason), "warn"),))
    lines += [
        fact("CPUs", f"{node.cpus_used}/{node.cpus} allocated, {known(node.cpu_pct, '%')} busy"),
        fact("memory", memory(node.mem_used_bytes, node.mem_bytes)),
    ]
    if node.jobs:
        more = len(node.jobs) - MAX_JOBS_NAMED
        lines.append(
            fact("jobs", ", ".join(node.jobs[:MAX_JOBS_NAMED]) + (f" and {more} more" if more > 0 else ""))
        )
    if node.features:
        lines.append(fact("features", printable(", ".join(node.features))))
    address = printable(node.target or node.address or node.hostname)
    lines.append(fact("address", address + (f", driver {node.driver}" if node.driver else "")))
    if not node.gpus:
        lines.append(fact("GPUs", printable(node.gpu_error) or "no NVIDIA GPUs"))
    return lines


def gpu_detail(node: NodeRow, index: int) -> list[Line]:
    """Return the details of the GPU under the cursor, with all its processes and their jobs."""
    gpu = next((each for each in node.gpus if each.index == index), None)
    if gpu is None:
        return []
    lines: list[Line] = [
        (Cell(f"GPU {index}", "accent"), Cell(f"  {printable(gpu.name)}", "muted")),
        *(_gauges(gpu) if not is_unmeasured(gpu) else [fact("readings", "none", "muted")]),
        gpu_holder(gpu),
        *sharer_lines(gpu),
    ]
    return lines + process_lines(gpu)


def _gauges(gpu: GpuRow) -> list[Line]:
    """Return the readings of a GPU."""
    used = None if gpu.mem_used_bytes is None else 100 * gpu.mem_used_bytes / max(1, gpu.mem_bytes)
    return [
        _gauge("util", gpu.util_pct, known(gpu.util_pct, "%")),
        _gauge("memory", used, memory(gpu.mem_used_bytes, gpu.mem_bytes)),
        fact("power", f"{known(gpu.power_w, ' W')} at {known(gpu.temp_c, ' °C')}"),
    ]


def gpu_holder(gpu: GpuRow) -> Line:
    """Return the job that holds the GPU, or why it cannot be used."""
    if gpu.error:
        return (Cell(printable(gpu.error), "warn"),)
    if gpu.blocked:
        return fact("blocked", printable(gpu.blocked), "warn")
    if gpu.job == UNKNOWN_JOB:
        return fact("job", "allocated to an unknown job", "muted")
    if gpu.job:
        of = f" of {printable(gpu.job_user)}" if gpu.job_user else ""
        return (*fact("job", gpu.job, "accent"), Cell(of))
    return fact("job", "free", "RUNNING")


def sharer_lines(gpu: GpuRow) -> list[Line]:
    """Return all jobs that share the GPU."""
    return [
        (
            *fact("" if at else "shared by", each.job, "accent"),
            Cell(f" of {printable(each.user)} ({each.share_pct} %)"),
        )
        for at, each in enumerate(gpu.sharers)
    ]


def process_lines(gpu: GpuRow) -> list[Line]:
    """Return every process on the GPU with its job."""
    lines: list[Line] = []
    for process in gpu.processes:
        lines.append(
            (
                Cell(f"{process.pid or '':>7} ", "muted"),
                Cell(f"{printable(process.command)[:10]:<10} {printable(process.user)[:8]:<8} "),
                Cell(f"{format_memory(process.mem_bytes):>5} "),
                Cell(f"job {process.job}", "accent") if process.job else Cell("no job", "warn"),
            )
        )
    return lines


def _gauge(title: str, percent: float | None, words: str) -> Line:
    return (Cell(f"{title:>{TITLE_WIDTH}} ", "muted"), *thin_bar(percent, 10), Cell(f" {words}"))
