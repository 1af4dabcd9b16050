"""The page of a node: its properties, its health, and curves of its CPUs and GPUs.

Each GPU is shown with its job and processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from warpdeck.model import GpuLinks, format_ranges, ranges_of
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.viewmodels.cells import Cell, Line, fact
from warpdeck_tui.widgets.cells import printable

from .gpu_map import NO_READINGS, is_unmeasured
from .node_charts import SMALL_HEIGHT, NodeCurves, gpu_panel, holder, node_panel, panel_lines
from .nodes import gpu_holder, node_lines, process_lines

SPANS = ((1.0, "10 minutes"), (10.0, "2 hours"), (60.0, "24 hours"))
"""Time spans as (seconds per step, title). The title says how long measurements with this step are kept."""
LABEL_WIDTH = 7
HALF_MIN, HALF_MAX = 14, 66
"""Smallest and largest width of each of two texts beside each other."""
MARGIN = 4
WHOLE_FROM = 10
"""Rate in gigabytes per second from which on no decimals are shown."""


class Missing(NamedTuple):
    """Reasons why the scheduler has no curves of nodes, and no health checks; "" if it has them."""

    curves: str = ""
    checks: str = ""


NOTHING_MISSING = Missing()


def page(
    node: NodeRow,
    curves: NodeCurves,
    *,
    span: int,
    told: str,
    width: int,
    missing: Missing = NOTHING_MISSING,
    has_charts: bool = True,
    about: Sequence[Line] = (),
) -> list[Line]:
    """Return all lines of the page. `told` says why there are no curves, or that they are being loaded.

    Without `has_charts` the charts are beside the text. `about` replaces the lines about the node itself.
    """
    health = [fact("health", missing.checks, "muted")] if missing.checks else _health(node)
    lines = [*(about or node_lines(node)), *_links(node.gpus), *health]
    shown = has_charts and not missing.curves
    if missing.curves:
        lines.append(fact("charts", missing.curves, "muted"))
    elif shown:
        title = (Cell(f"last {SPANS[span][1]}", "header"), Cell(f"  {told}" if told else "", "muted"))
        lines += [(), title, *panel_lines(node_panel(node, curves), curves, width, SMALL_HEIGHT + 1)]
    for number, gpu in enumerate(node.gpus):
        bare = is_unmeasured(gpu) and gpu.index not in curves
        lines += [] if number and bare else [()]
        if bare:
            lines.append(
                (Cell(f"GPU {gpu.index}  ", "accent"), *gpu_holder(gpu), Cell(f"   {NO_READINGS}", "muted"))
            )
        elif shown:
            lines += panel_lines(gpu_panel(gpu, curves), curves, width, SMALL_HEIGHT + 1)
        else:
            lines.append((Cell(f"GPU {gpu.index}", "header"), Cell("  "), *holder(gpu)))
        lines += [*_ways(gpu.links, width), *process_lines(gpu)]
    return lines


def resampled(points: Sequence[float | None], width: int) -> list[float | None]:
    """Return at most `width` points, each the mean of an equal part, or None if the part has no known
    points.
    """
    if len(points) <= width:
        return list(points)
    found: list[float | None] = []
    for at in range(width):
        part = points[at * len(points) // width : (at + 1) * len(points) // width]
        numbers = [point for point in part if point is not None]
        found.append(sum(numbers) / len(numbers) if numbers else None)
    return found


def _links(gpus: Sequence[GpuRow]) -> list[Line]:
    """Return which GPUs are connected by NVLink and which are attached to the same NUMA node.

    Unknown facts are omitted.
    """
    lines: list[Line] = []
    if any(gpu.island >= 0 for gpu in gpus):
        joined = _together(gpus, lambda gpu: gpu.island)
        lines.append(fact("NVLink", f"connects GPUs {'; '.join(joined.values())}"))
    elif len(gpus) > 1 and not all(map(is_unmeasured, gpus)):
        lines.append(fact("NVLink", "none between these GPUs", "muted"))
    if any(gpu.numa_node >= 0 for gpu in gpus):
        near = _together(gpus, lambda gpu: gpu.numa_node)
        lines.append(
            fact("PCIe", "; ".join(f"GPUs {told} on NUMA node {node}" for node, told in near.items()))
        )
    return lines


def _together(gpus: Sequence[GpuRow], key: Callable[[GpuRow], int]) -> dict[int, str]:
    """Return the GPU indices for each number, such as "0-3,6". Numbers below 0 are omitted."""
    found: dict[int, list[int]] = {}
    for gpu in gpus:
        if key(gpu) >= 0:
            found.setdefault(key(gpu), []).append(gpu.index)
    return {number: format_ranges(ranges_of(indices)) for number, indices in sorted(found.items())}


def _health(node: NodeRow) -> list[Line]:
    """Return the failed health checks, or a line that says that there are none.

    Checks concern, for example, ECC, Xid, temperature and disks.
    """
    if not node.health and node.at is not None:
        what = "ECC, Xid, temperature and disks" if node.gpus else "disks, mounts and clock"
        return [fact("health", f"✓ {what} OK")]
    lines: list[Line] = []
    for check in node.health:
        of = "" if check.gpu is None else f"GPU {check.gpu}: "
        style = "warn" if check.verdict == "warn" else "FAILED"
        sign = "✗" if check.verdict == "fail" else "!"
        lines.append(fact(printable(check.check)[:9], f"{sign} {of}{printable(check.message)}", style))
    return lines


def _ways(links: GpuLinks, width: int) -> list[Line]:
    """Return the PCIe and NVLink facts of the GPU, each below a graph if they fit on one line.

    Unknown facts are omitted.
    """
    half = max(HALF_MIN, min(HALF_MAX, (width - MARGIN) // 2 - LABEL_WIDTH - 2))
    ways = (("PCIe", _pcie(links, half)), ("NVLink", _nvlink(links)))
    cells = [(Cell(f"{title:>{LABEL_WIDTH}} ", "muted"), told) for title, told in ways if told is not None]
    has_room = 2 * (LABEL_WIDTH + 1 + half) + 2 <= width - MARGIN
    if has_room and len(cells) == 2 and all(len(told.text) <= half for _, told in cells):
        (title, told), second = cells
        return [(title, told._replace(text=f"{told.text:<{half}}"), Cell("  "), *second)]
    return list(cells)


def _pcie(links: GpuLinks, room: int) -> Cell | None:
    """Return the PCIe link of the GPU, or None if it is unknown. Missing lanes are shown as a fault.

    The shown generation is the maximum. An idle GPU lowers it, and the present one is added if it fits.
    """
    if links.pcie_gen is None or links.pcie_width is None:
        return None
    missing = links.pcie_width < (links.pcie_width_max or 0)
    lanes = f"x{links.pcie_width}" + (f" of x{links.pcie_width_max}!" if missing else "")
    most = max(links.pcie_gen, links.pcie_gen_max or 0)
    now = f" (now {links.pcie_gen}.0)" if links.pcie_gen < most else ""
    link, traffic = f"{most}.0 {lanes}", _traffic(links.pcie_tx_bytes_s, links.pcie_rx_bytes_s)
    words = f"{link}{now}{traffic}"
    return Cell(words if len(words) <= room else f"{link}{traffic}", "warn" if missing else "")


def _nvlink(links: GpuLinks) -> Cell | None:
    """Return the NVLink state of the GPU, or None if it has no NVLink. All links should be up."""
    if not links.nvlinks:
        return None
    missing = links.nvlinks_up < links.nvlinks
    up = f"{links.nvlinks_up}/{links.nvlinks}" + ("!" if missing else "")
    return Cell(
        f"{up}{_traffic(links.nvlink_tx_bytes_s, links.nvlink_rx_bytes_s)}", "warn" if missing else ""
    )


def _traffic(sent: int | None, received: int | None) -> str:
    """Return the traffic as seen by the GPU, such as ", 12 out, 3.1 in GB/s"."""
    ways = [f"{_rate(each)} {way}" for each, way in ((sent, "out"), (received, "in")) if each is not None]
    return "".join(f", {way}" for way in ways) + (" GB/s" if ways else "")


def _rate(bytes_s: int) -> str:
    giga = bytes_s / 1e9
    return f"{giga:.1f}" if giga < WHOLE_FROM else f"{giga:.0f}"
