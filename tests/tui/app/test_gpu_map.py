"""The cells of the map: titles, colors, idle GPUs, nodes without GPUs, and their growth with the screen."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.tui.static_cluster import nodes as static_nodes
from tests.tui.widgets.widget_pilot import STYLES, WidgetPilot, run_widget

from warpdeck.protocol.job_rows import CurveRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.user_files.map_color import keep_map_color, read_map_color
from warpdeck_tui.viewmodels.nodes.details import about_node, details
from warpdeck_tui.viewmodels.nodes.gpu_history import POINTS, STEP_S, GpuHistory
from warpdeck_tui.viewmodels.nodes.gpu_map import MapContext, gpu_lines, is_wasted, legend_words, wasted_words
from warpdeck_tui.viewmodels.nodes.owner_colors import COLORS, OwnerColors
from warpdeck_tui.widgets.cell_grid import CellGrid
from warpdeck_tui.widgets.meter import tall_sparkline
from warpdeck_tui.widgets.tile import IDLE, owner_style

GIB = 1 << 30
READINGS_ONLY_BYTES = 16_000
"""Limit of an update in which the number of each of 64 tall cells changes. Nothing but their lines is written."""


def gpu(
    index: int = 0, *, util: int | None = 86, job: str = "38", user: str = "erin", blocked: str = ""
) -> GpuRow:
    return GpuRow(
        index=index,
        uuid=f"GPU-{index}",
        name="H100",
        type="h100",
        mem_bytes=80 * GIB,
        mem_used_bytes=58 * GIB,
        util_pct=util,
        temp_c=62,
        power_w=400.0,
        job=job,
        job_user=user if job else "",
        blocked=blocked,
    )


def node(name: str = "gpu01", *gpus: GpuRow, state: str = "mixed", **fields: object) -> NodeRow:
    return NodeRow(name=name, state=state, cpus=96, mem_bytes=1024 * GIB, gpus=list(gpus), **fields)  # type: ignore[arg-type]


def test_a_cell_has_job_owner_number_temperature_and_memory() -> None:
    [cell] = gpu_lines([node("gpu01", gpu())], "util")[0].cells
    assert (cell.title, cell.number, cell.percent) == ("38 erin", "86%", 86.0)
    assert (cell.aside, cell.more, cell.more_percent) == ("62°C", "58/80G", 72.5)


def test_an_allocated_but_idle_gpu_stands_out_except_while_its_job_starts() -> None:
    idle, busy, free = gpu(0, util=2, user="carol"), gpu(1), gpu(2, util=0, job="")
    shown = [node("gpu01", idle, busy, free)]
    cells = gpu_lines(shown, "util")[0].cells
    assert [cell.role for cell in cells] == [IDLE, "", ""]
    assert cells[0].number == "2% idle" and cells[0].text == "  2%~"
    assert wasted_words(shown) == "1 idle: carol"
    assert not is_wasted(idle, {"38"}) and wasted_words(shown, {"38"}) == ""
    assert gpu_lines(shown, "util", context=MapContext(starting={"38"}))[0].cells[0].role == ""


def test_a_free_gpu_of_a_drained_node_is_not_called_free() -> None:
    [cell] = gpu_lines([node("gpu01", gpu(util=0, job=""), state="drained")], "util")[0].cells
    assert (cell.title, cell.text, cell.role) == ("drained", "  0%!", "muted")


def test_owners_and_jobs_have_a_color_of_their_own_and_a_legend() -> None:
    shown = [node("gpu01", gpu(0), gpu(1, job="39", user="bob"), gpu(2, job="40", user="bob"))]
    colors = OwnerColors().assign(["erin", "bob"])
    cells = gpu_lines(shown, "owner", context=MapContext(colors=colors))[0].cells
    assert cells[0].role != cells[1].role == cells[2].role
    words = legend_words(shown, "owner", colors)
    assert [text for text, role in words if role.startswith("owner")] == [" bob ", " erin "]
    assert [text.strip() for text, _ in words[1:4:2]] == ["2", "1"]


def test_colors_are_distinct_and_stay_when_owners_come_and_go() -> None:
    colors = OwnerColors()
    first = colors.assign(["ann", "bob"])
    more = colors.assign([f"user{at}" for at in range(COLORS - 2)] + ["ann", "bob"])
    assert sorted(more.values()) == list(range(COLORS))
    assert {name: more[name] for name in first} == first
    assert colors.assign(["bob"]) == {"bob": first["bob"]}
    assert len({owner_style(number, STYLES) for number in range(COLORS)}) == COLORS


def test_a_node_without_gpus_shows_its_cpus_and_memory() -> None:
    cpu_node = node("cpu01", state="mixed", cpus_used=12, cpu_pct=34.0, mem_used_bytes=512 * GIB)
    first, second = gpu_lines([cpu_node], "util")[0].cells
    assert (first.title, first.number) == ("CPUs 12/96 allocated", "34% busy")
    assert (second.title, second.number) == ("memory 512/1024G", "50%")


async def test_a_site_without_gpus_fills_the_map_with_bars() -> None:
    async with run_widget(CellGrid(STYLES), size=(120, 30)) as ui:
        shown = [
            node(f"cpu{at:02d}", state="mixed", cpus_used=12, cpu_pct=34.0, mem_used_bytes=512 * GIB)
            for at in range(6)
        ]
        ui.widget.show(gpu_lines(shown, "util"), legend=legend_words(shown, "util", {}), ramp="")
        for words in ("CPUs 12/96 allocated", "34% busy", "memory 512/1024G", "50%", "no node has GPUs"):
            await ui.shows(words)
        assert ui.widget.cursor == ("cpu00", -1)
        await ui.press("l")
        assert ui.widget.cursor == ("cpu00", -2)


def history() -> GpuHistory:
    found = GpuHistory()
    for at in range(12):
        found.note(static_nodes(), at * STEP_S)
    return found


@pytest.mark.parametrize(
    ("size", "height"), [((80, 24), 1), ((120, 40), 4), ((74, 36), 2), ((138, 46), 5), ((200, 90), 10)]
)
async def test_cells_grow_with_the_screen(size: tuple[int, int], height: int) -> None:
    async with run_widget(CellGrid(STYLES), size=size) as ui:
        ui.widget.show(gpu_lines(static_nodes(), "util", context=MapContext(history=history())))
        await ui.settle()
        assert ui.widget.cell_height == height
        used = [row for row in ui.rows() if row.strip()]
        assert len(used) >= 10
        if height > 1:
            for words in ("101 alice", "GPU 0", "drained"):
                await ui.shows(words)
        if height > 2:
            await ui.shows("°C")
            await ui.shows("▇")


async def test_a_thousand_nodes_have_small_cells() -> None:
    async with run_widget(CellGrid(STYLES), size=(200, 50)) as ui:
        ui.widget.show(
            gpu_lines([node(f"n{at:04d}", *(gpu(each) for each in range(8))) for at in range(1000)], "util")
        )
        await ui.settle()
        assert ui.widget.cell_height == 1
        assert sum("38 erin" in row for row in ui.rows()) >= 40


async def written(ui: WidgetPilot[CellGrid], util: int) -> bytes:
    """Return the output of an update in which only the readings change."""
    ui.take_written()
    shown = [node(f"gpu{at}", *(gpu(each, util=util) for each in range(8))) for at in range(8)]
    ui.widget.show(gpu_lines(shown, "owner"))
    await ui.pilot.pause()
    return ui.take_written().encode()


async def test_new_readings_of_tall_cells_change_only_their_lines() -> None:
    async with run_widget(CellGrid(STYLES), size=(160, 48)) as ui:
        await written(ui, 70)
        await ui.settle()
        changed = await written(ui, 83)
        assert b"83%" in changed and b"38 erin" not in changed
        assert len(changed) <= READINGS_ONLY_BYTES
        assert await written(ui, 83) == b""


def test_the_history_is_filled_from_the_agent_and_grows_by_one_point_in_ten_seconds() -> None:
    found = GpuHistory()
    curve = CurveRow(node="gpu01", begin=0, step_s=1, columns={"gpu_util_pct": (50.0,) * 30}, gpu=0)
    found.fill("gpu01", [curve])
    assert found.points("gpu01", 0) == (50.0,) * 3
    for second in (100.0, 101.0, 111.0):
        found.note([node("gpu01", gpu(util=int(second)))], second)
    assert found.points("gpu01", 0) == (50.0, 50.0, 50.0, 100.0, 111.0)
    found.note([node("gpu01", gpu(util=1))], 1e6)
    assert len(found.points("gpu01", 0)) == POINTS and found.points("gpu01", 0)[-2] is None


def test_a_tall_sparkline_fills_its_lines_from_below() -> None:
    assert tall_sparkline([100.0, 50.0, 1.0, None], 4, 2) == ["█   ", "██▁·"]
    assert tall_sparkline([50.0], 3, 1) == ["  ▄"]


def test_a_gpu_without_readings_says_so_in_the_table_of_all_gpus() -> None:
    shown = static_nodes()[7]
    blank = GpuRow(index=2, uuid="", name="", type="a100", mem_bytes=0, job="9", job_user="ann")
    gpus = [blank if gpu.index == 2 else gpu for gpu in shown.gpus]
    lines = details(msgspec.structs.replace(shown, gpus=gpus), 0, jobs={}, now=shown.at or 0.0, width=60)
    [line] = [text for cells in lines if (text := "".join(cell.text for cell in cells)).startswith("  2 ")]
    assert line.split() == ["2", "no", "readings", "9", "ann"]


def test_the_details_name_reason_jobs_and_all_gpus() -> None:
    shown = details(static_nodes()[7], 5, jobs={}, now=(static_nodes()[7].at or 0.0) + 1, width=60)
    text = "\n".join("".join(cell.text for cell in line) for line in shown)
    assert "ECC errors on GPU 5, to be swapped" in text and "2h00 ago" in text
    assert text.count("°C") == 9 and "GPU 5  NVIDIA H100" in text
    low = details(static_nodes()[0], 2, jobs={}, now=0.0, width=60, is_low=True)
    assert low[0][0].text == "GPU 2" and "°C" not in "".join(cell.text for cell in low[-1])


def test_a_node_of_another_scheduler_has_no_agent_of_ours() -> None:
    node = msgspec.structs.replace(static_nodes()[0], agent_start=0.0)
    now = (node.at or 0.0) + 3600
    own, others = (
        "\n".join(
            "".join(cell.text for cell in line)
            for line in about_node(node, jobs={}, now=now, width=60, is_own=is_own)
        )
        for is_own in (True, False)
    )
    assert "agent runs for" in own and "readings" in own
    assert "slurmd runs for" in others and "agent" not in others and "readings" not in others


def test_a_stored_color_that_does_not_exist_is_ignored(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPDECK_HOME", str(short_tmp))
    assert read_map_color() == ""
    keep_map_color("owner")
    assert read_map_color() == "owner"
