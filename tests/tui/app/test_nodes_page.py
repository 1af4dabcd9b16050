"""The nodes: the heat map, the list, drain and resume, and what is under the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import on_stage

from warpdeck.model import GpuRequest, Resources
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_agent.wire import messages as wire
from warpdeck_tui.viewmodels.nodes.nodes import fragmentation


async def test_the_map_shows_who_holds_each_gpu(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("held")
        await stage.press("2")
        await stage.shows("gpu01", "gpu02", "1 of 8 GPUs allocated", "metric: utilization")
        await stage.shows("GPU 0", "NVIDIA H100 80GB HBM3", "job 1 of")
        await stage.press("l")
        await stage.shows("GPU 1", "free")
        await stage.press("h", "enter")
        await stage.shows("job 1", "[Log]")
        await stage.press("escape")
        await stage.shows("metric: utilization")


async def test_a_cluster_without_nodes_says_how_one_is_added(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2")
        for node in ("gpu01", "gpu02"):
            await stage.shows(node)
            await stage.press("X")
            await stage.shows(f"Remove node {node}?")
            await stage.press("y")
            await stage.until(lambda node=node: node not in stage.app.board.nodes, "it is removed")  # type: ignore[misc]
        await stage.shows("0 nodes", "No nodes. Press A to add one")
        await stage.press("v")
        await stage.shows("CPUS", "No nodes. Press A to add one")


async def test_all_gpus_of_the_job_under_the_cursor_are_pointed_out(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("three", resources=Resources(gpus=GpuRequest(per_node=3)))
        await stage.press("2")
        await stage.shows("3 of 8 GPUs allocated", "= this job")
        await stage.until(lambda: stage.text().count("%=") == 3, "its three GPUs pointed out")
        await stage.press("l", "l", "l")
        await stage.until(lambda: stage.text().count("%*") == 3, "a free one under the cursor")


async def test_each_metric_is_named(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2")
        for words in ("memory", "power", "temperature", "owner", "utilization"):
            await stage.press("m")
            await stage.shows(f"metric: {words}")


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([0, 0, 4, 3, 1], "free: 2 whole nodes, 4 GPUs on 2 others, at most 3 per node"),
        ([4, 3], "free: 1 GPU on 1 node"),
        ([0], "free: 1 whole node"),
        ([4, 4], "no free GPUs"),
    ],
)
def test_who_looks_at_owners_is_told_how_scattered_what_is_free_is(held: list[int], said: str) -> None:
    def node(number: int, count: int) -> NodeRow:
        gpus = [
            GpuRow(index=at, uuid="", name="", type="", mem_bytes=1, job="7" if at < count else "")
            for at in range(4)
        ]
        return NodeRow(name=f"n{number}", state="mixed", gpus=gpus)

    nodes = [node(number, count) for number, count in enumerate(held)]
    drained = NodeRow(name="d", state="drained", gpus=node(0, 0).gpus)
    assert fragmentation([*nodes, drained]) == said


async def test_a_stranger_on_a_gpu_is_shown_with_its_owner(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stranger = wire.GpuProcess(pid=4711, mem_bytes=11 * 2**30, user="dave", command="jupyter")
        stage.cluster.nodes[0].foreign_processes[0] = stranger
        await stage.press("2")
        await stage.shows("1 blocked", "4711", "jupyter", "dave", "no job")


async def test_a_node_is_drained_with_a_reason_and_resumed(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2", "d")
        await stage.shows("Reason for draining gpu01", "$ warpdeck node drain gpu01")
        await stage.press("enter")
        await stage.shows("Reason for draining gpu01", "Enter a reason")
        await stage.type("fan broken")
        await stage.press("enter")
        await stage.shows("drained", "fan broken")
        await stage.press("d")
        await stage.shows("Resume gpu01?")
        await stage.press("y")
        await stage.shows("idle")
        await stage.hides("fan broken")


async def test_the_list_and_the_map_stay_on_the_same_node(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2", "j", "v")
        await stage.shows("JOBS OR REASON")
        assert stage.app.screen.cursor == ("gpu02", -1)  # type: ignore[attr-defined]
        await stage.press("k", "v")
        await stage.shows("metric: utilization")
        assert stage.app.screen.cursor[0] == "gpu01"  # type: ignore[attr-defined]


async def test_a_node_with_jobs_is_not_removed(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("busy")
        await stage.press("2")
        await stage.shows("1 of 8 GPUs allocated")
        await stage.press("X")
        await stage.shows("Remove node gpu01?", "$ warpdeck node rm gpu01")
        await stage.press("y")
        await stage.told("gpu01")
        assert "gpu01" in stage.cluster.controller.state.nodes


async def test_a_host_that_cannot_be_added_is_told_in_the_dialog(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2", "A")
        await stage.shows("Add a node", "$ warpdeck node add HOST")
        await stage.press("enter")
        await stage.shows("Enter an address")
        await stage.type("gpu99")
        await stage.shows("$ warpdeck node add gpu99")
        await stage.press("enter")
        await stage.shows("no hosts to add")
        await stage.press("escape")
        await stage.shows("metric: utilization")
