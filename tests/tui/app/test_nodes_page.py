"""The nodes: heat map, list, drain and resume, and the details of the selected GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import ME, run_app

from warpdeck.model import GpuRequest, Resources
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_agent.wire import messages as wire
from warpdeck_tui.user_files.map_color import read_map_color
from warpdeck_tui.viewmodels.nodes.nodes import fragmentation


async def test_the_map_shows_the_job_of_each_gpu(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("held")
        await ui.press("2")
        await ui.shows("gpu01", "gpu02", "1 of 8 GPUs allocated", "color: utilization")
        await ui.shows("GPU 0", "NVIDIA H100 80GB HBM3", "job 1 of")
        await ui.press("l")
        await ui.shows("GPU 1", "free")
        await ui.press("h", "enter")
        await ui.shows("job 1", "[Log]")
        await ui.press("escape")
        await ui.shows("color: utilization")


async def test_a_cluster_without_nodes_shows_how_to_add_one(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2")
        for node in ("gpu01", "gpu02"):
            await ui.shows(node)
            await ui.press("X")
            await ui.shows(f"Remove node {node}?")
            await ui.press("y")
            await ui.until(lambda node=node: node not in ui.app.board.nodes, "the node is removed")
        await ui.shows("0 nodes", "No nodes. Press A to add one")
        await ui.press("v")
        await ui.shows("CPUS", "No nodes. Press A to add one")


async def test_all_gpus_of_the_selected_job_are_highlighted(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("three", resources=Resources(gpus=GpuRequest(per_node=3)))
        await ui.press("2")
        await ui.shows("3 of 8 GPUs allocated", "= this job", f"1 {ME}")
        await ui.until(lambda: ui.text().count("%=") == 3, "its three GPUs pointed out")
        await ui.press("l", "l", "l")
        await ui.until(lambda: ui.text().count("%=") == 0, "a free one under the cursor")


async def test_the_map_names_each_metric(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2")
        for words in ("memory", "owner", "job", "temperature", "power", "utilization"):
            await ui.press("m")
            await ui.shows(f"color: {words}")


async def test_the_color_is_chosen_by_one_key_and_kept_for_the_next_start(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("held")
        await ui.press("2")
        await ui.shows("1 of 8 GPUs allocated")
        for key, words in (("u", "utilization"), ("b", "memory"), ("J", "job"), ("o", "owner")):
            await ui.press(key)
            await ui.shows(f"color: {words}")
        assert read_map_color() == "owner"
        await ui.press("1", "2")
        await ui.shows("color: owner")


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ([0, 0, 4, 3, 1], "free: 2 whole nodes, 4 GPUs on 2 others, at most 3 per node"),
        ([4, 3], "free: 1 GPU on 1 node"),
        ([0], "free: 1 whole node"),
        ([4, 4], "no free GPUs"),
    ],
)
def test_the_owner_view_shows_how_fragmented_free_gpus_are(held: list[int], text: str) -> None:
    def node(number: int, count: int) -> NodeRow:
        gpus = [
            GpuRow(index=at, uuid="", name="", type="", mem_bytes=1, job="7" if at < count else "")
            for at in range(4)
        ]
        return NodeRow(name=f"n{number}", state="mixed", gpus=gpus)

    nodes = [node(number, count) for number, count in enumerate(held)]
    drained = NodeRow(name="d", state="drained", gpus=node(0, 0).gpus)
    assert fragmentation([*nodes, drained]) == text


async def test_a_foreign_process_on_a_gpu_is_shown_with_its_user(folder: Path) -> None:
    async with run_app(folder) as ui:
        stranger = wire.GpuProcess(pid=4711, mem_bytes=11 * 2**30, user="dave", command="jupyter")
        ui.cluster.nodes[0].foreign_processes[0] = stranger
        await ui.press("2")
        await ui.shows("1 blocked", "4711", "jupyter", "dave", "no job")


async def test_a_node_is_drained_with_a_reason_and_resumed(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2", "d")
        await ui.shows("Reason for draining gpu01", "$ warpdeck node drain gpu01")
        await ui.press("enter")
        await ui.shows("Reason for draining gpu01", "Enter a reason")
        await ui.type("fan broken")
        await ui.press("enter")
        await ui.shows("drained", "fan broken")
        await ui.press("d")
        await ui.shows("Resume gpu01?")
        await ui.press("y")
        await ui.shows("idle")
        await ui.hides("fan broken")


async def test_list_and_map_keep_the_same_node_selected(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2", "j", "v")
        await ui.shows("JOBS OR REASON")
        assert ui.app.screen.cursor == ("gpu02", -1)  # type: ignore[attr-defined]
        await ui.press("k", "v")
        await ui.shows("color: utilization")
        assert ui.app.screen.cursor[0] == "gpu01"  # type: ignore[attr-defined]


async def test_a_node_with_jobs_is_not_removed(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("busy")
        await ui.press("2")
        await ui.shows("1 of 8 GPUs allocated")
        await ui.press("X")
        await ui.shows("Remove node gpu01?", "$ warpdeck node rm gpu01")
        await ui.press("y")
        await ui.shows_notification("gpu01")
        assert "gpu01" in ui.cluster.controller.state.nodes


async def test_a_host_that_cannot_be_added_is_reported_in_the_dialog(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2", "A")
        await ui.shows("Add a node", "$ warpdeck node add HOST")
        await ui.press("enter")
        await ui.shows("Enter an address")
        await ui.type("gpu99")
        await ui.shows("$ warpdeck node add gpu99")
        await ui.press("enter")
        await ui.shows("no hosts to add")
        await ui.press("escape")
        await ui.shows("color: utilization")
