"""The map of 1,024 GPUs in its own tiles: what a tick costs in CPU, and in bytes to the terminal."""

from __future__ import annotations

import time

import msgspec

from tests.tui.widgets.stage import STYLES, stage
from warpdeck.protocol.node_rows import GpuRow, NodeRow, PastNodeRow
from warpdeck_agent.wire.frames import parse_json
from warpdeck_tui.viewmodels.nodes.nodes import gpu_lines, summary
from warpdeck_tui.viewmodels.nodes.past_nodes import moment_words
from warpdeck_tui.widgets.cell_grid import CellGrid

NODES, GPUS = 128, 8
TICK_CPU_S = 0.3
"""A tick in which every GPU reads otherwise: 35 ms on a quiet machine, which a test cannot have."""
TICK_BYTES = 9_000 * 184 // 64
"""DESIGN has 9 kB for 64 GPUs; on 80x24 184 of them are seen, and only what is seen is written."""
FEW_BYTES = 1_500
STEP_CPU_S = 0.15
"""A step through time, from the controller's answer to the tiles: 14 ms on a busy machine."""


def nodes(shift: int, *, changed: int = NODES) -> list[NodeRow]:
    """Of the first `changed` nodes the readings follow `shift`."""
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


async def test_a_tick_of_1024_gpus_keeps_to_its_cpu_and_its_bytes() -> None:
    async with stage(CellGrid(STYLES, legend="* a job holds it"), size=(80, 24)) as player:
        player.widget.show(gpu_lines(nodes(0), "util"))
        await player.settle()
        took_s = []
        for shift in (
            31,
            47,
            59,
        ):  # the best of three: a collector's run over all that the tests have left is no tick's
            told = nodes(shift)
            begun = time.process_time()
            assert "1024 of 1024 GPUs allocated" in summary(told)
            player.widget.show(gpu_lines(told, "util"))
            await player.pilot.pause()
            took_s.append(time.process_time() - begun)
            assert 0 < len(player.take_written().encode()) <= TICK_BYTES
        assert min(took_s) < TICK_CPU_S
        await player.settle()
        player.widget.show(gpu_lines(told, "util"))
        await player.pilot.pause()
        assert player.take_written() == "", "what looks the same is not written again"


async def test_of_1024_gpus_a_node_that_is_not_seen_writes_nothing_and_one_that_is_its_own_tiles() -> None:
    async with stage(CellGrid(STYLES, legend=""), size=(80, 24)) as player:
        player.widget.show(gpu_lines(nodes(0), "util"))
        await player.settle()
        player.widget.show(gpu_lines(nodes(31, changed=1), "util"))
        await player.pilot.pause()
        assert 0 < len(player.take_written().encode()) <= FEW_BYTES
        await player.press("G")
        await player.settle()
        player.widget.show(gpu_lines(nodes(57, changed=1), "util"))
        await player.pilot.pause()
        assert player.take_written() == ""


def then(shift: int) -> bytes:
    """The controller's answer to where one has gone in time."""
    rows = [
        PastNodeRow(name=node.name, state=node.state, gpus=node.gpus, begin=60.0 * shift, step_s=60.0)
        for node in nodes(shift)
    ]
    return msgspec.json.encode({"t": "ok", "id": 1, "result": rows})


async def test_a_step_through_time_of_1024_gpus_keeps_to_its_cpu_and_its_bytes() -> None:
    async with stage(CellGrid(STYLES, legend=""), size=(80, 24)) as player:
        player.widget.show(gpu_lines(nodes(0), "util"))
        await player.settle()
        took_s = []
        for shift in (31, 47, 59):
            player.take_written()
            answer = then(shift)
            begun = time.process_time()
            rows = msgspec.convert(parse_json(answer)["result"], list[PastNodeRow])
            assert "averages over 60 s" in moment_words(
                rows, 60.0 * shift, 1e6
            ) and "1024 of 1024" in summary(rows)
            player.widget.show(gpu_lines(rows, "util"), legend="then")
            await player.pilot.pause()
            took_s.append(time.process_time() - begun)
        assert min(took_s) < STEP_CPU_S, took_s
        assert 0 < len(player.take_written().encode()) <= TICK_BYTES
