"""The GPU map in words: a line for each node, and one for each group of neighboring GPUs in the same situation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import groupby

from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.widgets.cells import printable

from .gpu_map import CLOSED, GIB, UNKNOWN_JOB, cpu_cells, is_out, is_unmeasured, is_wasted, node_notes


def node_words(node: NodeRow, *, starting: Set[str] = frozenset()) -> list[str]:
    """Return the lines of a node, such as "GPUs 0-3: job 24 of erin, 81-94% used, memory 63 of 80G, 62-66°C, 2404 W"."""
    notes = ", ".join(note for note in node_notes(node) if note)
    lines = [f"{node.name}, {node.state}" + (f": {notes}" if notes else "")]
    if is_out(node):
        return [*lines, "  no data"]
    if not node.gpus:
        cells = cpu_cells(node, "util")
        return (
            [*lines, *(f"  {cell.title}, {cell.number}" for cell in cells)]
            if cells
            else [*lines, "  no data"]
        )
    groups = groupby(node.gpus, key=lambda gpu: _situation(node, gpu, starting))
    return lines + [f"  {_group_words(words, list(gpus))}" for words, gpus in groups]


def _situation(node: NodeRow, gpu: GpuRow, starting: Set[str]) -> str:
    """Return the use of a GPU in words."""
    if gpu.error:
        return f"fault: {printable(gpu.error)}"
    if gpu.blocked:
        return f"blocked: {printable(gpu.blocked)}"
    if gpu.job == UNKNOWN_JOB:
        return "allocated to an unknown job"
    if gpu.job:
        owner = f" of {printable(gpu.job_user)}" if gpu.job_user else ""
        return f"job {gpu.job}{owner}" + (", allocated but idle" if is_wasted(gpu, starting) else "")
    return f"{node.state}, no job" if node.state in CLOSED else "free"


def _group_words(situation: str, gpus: Sequence[GpuRow]) -> str:
    first, last = gpus[0].index, gpus[-1].index
    title = f"GPU {first}" if len(gpus) == 1 else f"GPUs {first}-{last}"
    facts = [situation]
    if all(map(is_unmeasured, gpus)):
        return f"{title}: {situation}, no readings"
    if any(gpu.util_pct is not None for gpu in gpus):
        facts.append(f"{_span(gpu.util_pct for gpu in gpus)}% used")
    if any(gpu.mem_used_bytes is not None for gpu in gpus):
        used = _span(None if gpu.mem_used_bytes is None else round(gpu.mem_used_bytes / GIB) for gpu in gpus)
        facts.append(f"memory {used} of {_span(round(gpu.mem_bytes / GIB) for gpu in gpus)}G")
    if any(gpu.temp_c is not None for gpu in gpus):
        facts.append(f"{_span(gpu.temp_c for gpu in gpus)}°C")
    power_w = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    if power_w:
        facts.append(f"{sum(power_w):.0f} W" + (" together" if len(gpus) > 1 else ""))
    return f"{title}: {', '.join(facts)}"


def _span(values: Iterable[int | None]) -> str:
    """Return the smallest and the largest of the known values."""
    known = [value for value in values if value is not None]
    return f"{min(known)}" if min(known) == max(known) else f"{min(known)}-{max(known)}"
