"""Memory used by a burst of handshakes is returned to the system afterwards, and only then."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.waiting import eventually_async

from warpdeck.fleet import memory_trim
from warpdeck.fleet.memory_trim import MANY, BurstCounter, MemoryTrimmer, trim

BLOCKS, BLOCK_BYTES = 400, 100_000
"""Each block is smaller than the blocks that the C library maps separately."""


@pytest.mark.parametrize(("count", "calls"), [(MANY, 1), (MANY - 1, 0)])
def test_a_large_burst_is_followed_by_exactly_one_call(count: int, calls: int) -> None:
    over: list[int] = []
    burst = BurstCounter(lambda: over.append(1))
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(burst.operation())
        assert not over, "the handshakes are still in progress"
    assert len(over) == calls


def test_failed_handshakes_leave_a_burst_and_single_ones_never_add_up() -> None:
    over: list[int] = []
    burst = BurstCounter(lambda: over.append(1))
    for _ in range(2 * MANY):
        with pytest.raises(ValueError, match="no"), burst.operation():
            raise ValueError("no")
    assert not over


async def test_many_ended_links_cause_one_collection_and_a_few_wait_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_trim, "SETTLE_S", 0.01)
    collected: list[int] = []
    tidying = MemoryTrimmer(lambda: collected.append(1))
    for _ in range(2 * MANY):
        tidying.count_ended_link()
    await eventually_async(lambda: collected, what="the dead links are collected")
    for _ in range(MANY - 1):
        tidying.count_ended_link()
    assert collected == [1]
    tidying.schedule()
    await eventually_async(lambda: len(collected) == 2, what="the few links are collected after a burst")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_free_memory_between_used_blocks_is_returned_to_the_system() -> None:
    blocks = [bytearray(BLOCK_BYTES) for _ in range(BLOCKS)]
    for place in range(0, BLOCKS - 1, 2):
        blocks[place] = bytearray()
    before = resident_bytes()
    if trim():
        assert before - resident_bytes() > BLOCKS * BLOCK_BYTES // 4
