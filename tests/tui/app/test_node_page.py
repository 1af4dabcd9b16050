"""The page of a node: its curves, its GPUs with their jobs and processes, and failed health checks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.model import GpuLinks
from warpdeck.protocol.job_rows import CurveRow
from warpdeck.protocol.node_rows import CheckRow, GpuRow, NodeRow
from warpdeck_tui.viewmodels.nodes.node_page import page, resampled


def text(node: NodeRow, curves: list[CurveRow], *, width: int = 80) -> list[str]:
    lines = page(node, curves, span=0, told="", width=width)
    return ["".join(cell.text for cell in line) for line in lines]


def node(**fields: object) -> NodeRow:
    gpu = GpuRow(index=3, uuid="u", name="H100", type="h100", mem_bytes=80 << 30, util_pct=50, power_w=350.0)
    return NodeRow(**{"name": "gpu01", "cpus": 8, "mem_bytes": 1 << 40, "gpus": [gpu], **fields})  # type: ignore[arg-type]


def test_resampling_averages_and_keeps_unknown_values() -> None:
    assert resampled([1, 3, 5, 7], 2) == [2, 6]
    assert resampled([None, None, 4, None], 2) == [None, 4]
    assert resampled([1, None], 8) == [1, None]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_curves_and_their_values_fit_the_screen(width: int) -> None:
    curve = CurveRow(
        node="gpu01",
        begin=0,
        step_s=1,
        columns={"gpu_util_pct": (0.0, 50.0, None, 100.0), "gpu_power_w": (700.0,) * 4},
        gpu=3,
    )
    shown = text(node(), [curve], width=width)
    line = next(each for each in shown if " util " in each)
    assert " ▄·█   50%" in line and "████  350W" in line
    if width >= 80:
        assert all(len(each) <= width for each in shown)


def test_failed_checks_are_shown_with_their_gpu() -> None:
    checks = [
        CheckRow(check="ecc", verdict="fail", message="2 errors", gpu=3),
        CheckRow(check="disk", verdict="warn"),
    ]
    shown = "\n".join(text(node(health=checks), []))
    assert "ecc ✗ GPU 3: 2 errors" in shown and "disk ! " in shown


LINKS = GpuLinks(
    pcie_gen=5,
    pcie_gen_max=5,
    pcie_width=16,
    pcie_width_max=16,
    pcie_tx_bytes_s=1_250_000_000,
    pcie_rx_bytes_s=12_600_000_000,
    nvlinks=18,
    nvlinks_up=18,
    nvlink_tx_bytes_s=121_000_000_000,
    nvlink_rx_bytes_s=0,
)


def linked(*, width: int = 80, **fields: object) -> list[str]:
    """Return the lines with a GPU's links below its graphs."""
    gpu = msgspec.structs.replace(node().gpus[0], links=msgspec.structs.replace(LINKS, **fields))
    shown = text(node(gpus=[gpu]), [], width=width)
    return [
        line.rstrip() for line in shown[next(at for at, line in enumerate(shown) if " util " in line) + 1 :]
    ]


def test_the_traffic_of_a_gpus_links_is_shown_below_its_graphs() -> None:
    assert linked() == ["   PCIe 5.0 x16, 1.2 out, 13 in GB/s    NVLink 18/18, 121 out, 0.0 in GB/s"]
    assert linked(nvlinks=0) == ["   PCIe 5.0 x16, 1.2 out, 13 in GB/s"]
    assert linked(pcie_gen=None, nvlink_tx_bytes_s=None, nvlink_rx_bytes_s=None) == [" NVLink 18/18"]
    assert linked(pcie_gen=None, nvlinks=0) == []


def test_a_link_with_missing_lanes_is_highlighted_and_an_idle_one_is_not() -> None:
    narrow = linked(pcie_width=8, nvlinks_up=17)
    assert narrow == ["   PCIe 5.0 x8 of x16!, 1.2 out, 13 in GB/s", " NVLink 17/18!, 121 out, 0.0 in GB/s"]
    assert linked(width=120, pcie_gen=1)[0].startswith("   PCIe 5.0 x16 (now 1.0), 1.2 out")
    assert linked(pcie_gen=1) == linked()


async def test_the_node_page_opens_from_the_map_and_changes_its_time_range(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("held")
        await ui.press("2")
        await ui.shows("1 of 8 GPUs allocated")
        await ui.press("p")
        await ui.shows("node gpu01", "last 10 minutes", "GPU 0", "job 1", "python", "util", "power")
        await ui.until(lambda: "▇" in ui.text() or "█" in ui.text(), "a curve is drawn")
        await ui.press("m")
        await ui.shows("last 2 hours")
        await ui.press("d")
        await ui.shows("Reason for draining gpu01")
        await ui.press("escape", "escape")
        await ui.shows("color: utilization")


def test_links_and_passed_checks_are_shown() -> None:
    gpus = [
        GpuRow(index=at, uuid=f"G{at}", name="H100", type="h100", mem_bytes=1, island=at // 2, numa_node=0)
        for at in range(4)
    ]
    shown = "\n".join(text(NodeRow(name="a", gpus=gpus, at=1.0), []))
    assert "NVLink connects GPUs 0-1; 2-3" in shown and "PCIe GPUs 0-3 on NUMA node 0" in shown
    assert "✓ ECC, Xid" in shown
    alone = [GpuRow(index=at, uuid="", name="T4", type="t4", mem_bytes=1) for at in range(2)]
    shown = "\n".join(text(NodeRow(name="a", gpus=alone), []))
    assert "none between these GPUs" in shown and "PCIe" not in shown and "✓ " not in shown
