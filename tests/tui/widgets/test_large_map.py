"""CPU time and terminal output of an update of the map with 1,024 GPUs."""

from __future__ import annotations

import time

import msgspec

from tests.tui.widgets.widget_pilot import STYLES, run_widget
from warpdeck.protocol.node_rows import GpuRow, NodeRow, PastNodeRow
from warpdeck_agent.wire.frames import parse_json
from warpdeck_tui.viewmodels.nodes.gpu_map import gpu_lines
from warpdeck_tui.viewmodels.nodes.nodes import summary
from warpdeck_tui.viewmodels.nodes.past_nodes import moment_words
from warpdeck_tui.widgets.cell_grid import CellGrid

NODES, GPUS = 128, 8
TICK_CPU_S = 0.3
"""Limit of an update in which every GPU changes. An idle machine needs 35 ms."""
TICK_BYTES = 9_000 * 184 // 64
"""The budget is 9 kB for 64 GPUs. At 80x24, 184 GPUs are visible, and only these are written."""
FEW_BYTES = 1_500
STEP_CPU_S = 0.15
"""Limit of a step through time, from the controller's answer to the tiles. A busy machine needs 14 ms."""


def nodes(shift: int, *, changed: int = NODES) -> list[NodeRow]:
    """Return nodes. The measurements of the first `changed` nodes depend on `shift`."""
    return [
        NodeRow(
            name=f"gpu{at:03d}",
            state="mixed",
            gpus=[_gpu(at, index, shift * (at < changed)) for index in range(GPUS)],
        )
        for at in range(NODES)
    ]


def _gpu(node: int, index: int, shift: int) -> GpuRow:
    util = (node * 13 + index * 7 + shift) % 101
    return GpuRow(
        index=index,
        uuid=f"{node}-{index}",
        name="H100",
        type="h100",
        mem_bytes=1,
        util_pct=util,
        job=str(node),
    )


async def test_an_update_of_1024_gpus_stays_within_its_limits() -> None:
    async with run_widget(CellGrid(STYLES, legend="* a job holds it"), size=(80, 24)) as ui:
        ui.widget.show(gpu_lines(nodes(0), "util"))
        await ui.settle()
        took_s = []
        # The best of three counts, as the garbage collector may run during an update.
        for shift in (31, 47, 59):
            rows = nodes(shift)
            begun = time.process_time()
            assert "1024 of 1024 GPUs allocated" in summary(rows)
            ui.widget.show(gpu_lines(rows, "util"))
            await ui.pilot.pause()
            took_s.append(time.process_time() - begun)
            assert 0 < len(ui.take_written().encode()) <= TICK_BYTES
        assert min(took_s) < TICK_CPU_S
        await ui.settle()
        ui.widget.show(gpu_lines(rows, "util"))
        await ui.pilot.pause()
        assert ui.take_written() == "", "an unchanged map is not written again"


async def test_an_update_of_1024_gpus_writes_only_visible_changed_tiles() -> None:
    async with run_widget(CellGrid(STYLES, legend=""), size=(80, 24)) as ui:
        ui.widget.show(gpu_lines(nodes(0), "util"))
        await ui.settle()
        ui.widget.show(gpu_lines(nodes(31, changed=1), "util"))
        await ui.pilot.pause()
        assert 0 < len(ui.take_written().encode()) <= FEW_BYTES
        await ui.press("G")
        await ui.settle()
        ui.widget.show(gpu_lines(nodes(57, changed=1), "util"))
        await ui.pilot.pause()
        assert ui.take_written() == ""


def past_answer(shift: int) -> bytes:
    """Return the controller's answer about the nodes at a past time."""
    rows = [
        PastNodeRow(name=node.name, state=node.state, gpus=node.gpus, begin=60.0 * shift, step_s=60.0)
        for node in nodes(shift)
    ]
    return msgspec.json.encode({"t": "ok", "id": 1, "result": rows})


async def test_a_step_through_time_of_1024_gpus_stays_within_its_limits() -> None:
    async with run_widget(CellGrid(STYLES, legend=""), size=(80, 24)) as ui:
        ui.widget.show(gpu_lines(nodes(0), "util"))
        await ui.settle()
        took_s = []
        for shift in (31, 47, 59):
            ui.take_written()
            answer = past_answer(shift)
            begun = time.process_time()
            rows = msgspec.convert(parse_json(answer)["result"], list[PastNodeRow])
            assert "averages over 60 s" in moment_words(
                rows, 60.0 * shift, 1e6
            ) and "1024 of 1024" in summary(rows)
            ui.widget.show(gpu_lines(rows, "util"), legend=(("then", "muted"),))
            await ui.pilot.pause()
            took_s.append(time.process_time() - begun)
        assert min(took_s) < STEP_CPU_S, took_s
        assert 0 < len(ui.take_written().encode()) <= TICK_BYTES
