"""The GPU map in words, for screen readers."""

from __future__ import annotations

from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.viewmodels.nodes.gpu_words import node_words

GIB = 1 << 30


def gpu(index: int, **fields: object) -> GpuRow:
    base: dict[str, object] = {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "H100",
        "type": "h100",
        "mem_bytes": 80 * GIB,
        "mem_used_bytes": 0,
        "util_pct": 0,
        "temp_c": 33,
        "power_w": 70.0,
    }
    return GpuRow(**{**base, **fields})  # type: ignore[arg-type]


def held(index: int, util_pct: int) -> GpuRow:
    return gpu(
        index,
        job="24",
        job_user="erin",
        util_pct=util_pct,
        mem_used_bytes=63 * GIB,
        temp_c=60 + index,
        power_w=600.0,
    )


def node(*gpus: GpuRow, state: str = "mixed") -> NodeRow:
    return NodeRow(name="gpu01", state=state, gpus=list(gpus))


def test_neighboring_gpus_of_one_job_are_one_line_with_units() -> None:
    lines = node_words(node(held(0, 82), held(1, 93), gpu(2), gpu(3)))
    assert lines == [
        "gpu01, mixed: no jobs",
        "  GPUs 0-1: job 24 of erin, 82-93% used, memory 63 of 80G, 60-61°C, 1200 W together",
        "  GPUs 2-3: free, 0% used, memory 0 of 80G, 33°C, 140 W together",
    ]


def test_idle_blocked_and_faulty_gpus_are_named_in_words() -> None:
    [_, idle, blocked, fault] = node_words(
        node(held(0, 0), gpu(1, blocked="held by dave outside the queue"), gpu(2, error="lost"))
    )
    assert idle.startswith("  GPU 0: job 24 of erin, allocated but idle, 0% used")
    assert blocked.startswith("  GPU 1: blocked: held by dave outside the queue, 0% used")
    assert fault.startswith("  GPU 2: fault: lost")


def test_gpus_of_a_drained_node_are_not_called_free() -> None:
    assert node_words(node(gpu(0), state="drained"))[1].startswith("  GPU 0: drained, no job")


def test_gpus_without_readings_have_no_numbers() -> None:
    bare = GpuRow(index=0, uuid="", name="", type="", mem_bytes=0, job="7", job_user="ann")
    assert node_words(node(bare))[1] == "  GPU 0: job 7 of ann, no readings"


def test_nothing_is_claimed_about_a_node_that_is_down() -> None:
    assert node_words(node(held(0, 50), state="down")) == ["gpu01, down", "  no data"]
