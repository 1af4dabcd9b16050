"""The page of a node: its curves, its GPUs with their jobs and processes, and failed health checks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.model import GpuLinks
from warpdeck.protocol.job_rows import CurveRow
from warpdeck.protocol.node_rows import CheckRow, GpuRow, NodeRow
from warpdeck_tui.viewmodels.nodes.node_charts import (
    SMALL_HEIGHT,
    NodeCurves,
    charts,
    gpu_panel,
    node_panel,
    node_panels,
)
from warpdeck_tui.viewmodels.nodes.node_page import page, resampled


def text(node: NodeRow, curves: list[CurveRow], *, width: int = 80) -> list[str]:
    lines = page(node, NodeCurves(curves), span=0, told="", width=width)
    return ["".join(cell.text for cell in line) for line in lines]


def node(**fields: object) -> NodeRow:
    gpu = GpuRow(index=3, uuid="u", name="H100", type="h100", mem_bytes=80 << 30, util_pct=50, power_w=350.0)
    return NodeRow(**{"name": "gpu01", "cpus": 8, "mem_bytes": 1 << 40, "gpus": [gpu], **fields})  # type: ignore[arg-type]


def test_resampling_averages_and_keeps_unknown_values() -> None:
    assert resampled([1, 3, 5, 7], 2) == [2, 6]
    assert resampled([None, None, 4, None], 2) == [None, 4]
    assert resampled([1, None], 8) == [1, None]


def curve(gpu: int | None = 3) -> CurveRow:
    columns: dict[str, tuple[float | None, ...]] = {
        "gpu_util_pct": (0.0, 50.0, None, 100.0),
        "gpu_mem_bytes": (float(40 << 30),) * 4,
        "cpu_pct": (100.0, 400.0, 800.0),
    }
    return CurveRow(node="gpu01", begin=0, step_s=1, columns=columns, gpu=gpu)


@pytest.mark.parametrize("width", [44, 80, 200])
def test_charts_have_axes_and_values_and_fit_the_screen(width: int) -> None:
    shown = text(node(), [curve()], width=width)
    at = next(at for at, each in enumerate(shown) if each.startswith("GPU 3"))
    assert "free" in shown[at] and shown[at].endswith("━ util 50%  ━ ?/80G  350W ?")
    assert shown[at + 1].startswith("100%┤") and shown[at + 3].startswith("  0%┤")
    assert any(0x2800 < ord(char) < 0x2900 for line in shown[at + 1 : at + 4] for char in line)
    assert all(len(each) <= width for each in shown[at : at + 4])


@pytest.mark.parametrize(("width", "height"), [(44, 20), (70, 35), (110, 45), (150, 55), (180, 12)])
def test_charts_beside_the_text_fill_their_frame(width: int, height: int) -> None:
    gpus = [msgspec.structs.replace(node().gpus[0], index=at, job="7", job_user="ann") for at in range(4)]
    curves = NodeCurves([curve(None), *(curve(at) for at in range(4))])
    panels = [node_panel(node(), curves), *(gpu_panel(gpu, curves) for gpu in gpus)]
    lines = charts(panels, curves, span="2 hours", width=width, height=height)
    shown = ["".join(cell.text for cell in line) for line in lines]
    assert all(len(line) <= width for line in shown)
    assert height * 0.8 <= len(lines) <= height
    assert "2 hours ago" in shown[-1] and shown[-1].rstrip().endswith("now")
    assert sum(line.count("7 ann") for line in shown) == 4 and "CPUs" in shown[0]


def test_a_gpu_that_nobody_measures_has_no_empty_chart() -> None:
    shown = node()
    gpus = [msgspec.structs.replace(shown.gpus[0], index=at, util_pct=None) for at in range(3)]
    unmeasured = msgspec.structs.replace(shown, gpus=gpus)
    assert [panel.key for panel in node_panels(unmeasured, NodeCurves())] == [None]
    assert [panel.key for panel in node_panels(unmeasured, NodeCurves([curve(1)]))] == [None, 1]


def test_an_allocated_gpu_that_is_not_used_is_called_idle() -> None:
    gpu = msgspec.structs.replace(node().gpus[0], util_pct=1, job="7", job_user="ann")
    assert "7 ann  idle" in "".join(cell.text for cell in gpu_panel(gpu, NodeCurves()).title)


def test_drawn_charts_are_kept_while_only_the_values_change() -> None:
    curves = NodeCurves([curve()])
    gpu = node().gpus[0]
    first = curves.chart(gpu_panel(gpu, curves), 60, 5)
    assert curves.chart(gpu_panel(msgspec.structs.replace(gpu, util_pct=77), curves), 60, 5) is first


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
    at = next(at for at, line in enumerate(shown) if " util " in line)
    return [line.rstrip() for line in shown[at + SMALL_HEIGHT + 1 :]]


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
        await ui.shows("node gpu01", "last 10 minutes", "GPU 0", "job 1", "python", "util", "100%┤")
        await ui.until(lambda: any(0x2800 < ord(char) < 0x2900 for char in ui.text()), "a curve is drawn")
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
