"""Name the rank to blame, from the evidence of all ranks."""

from __future__ import annotations

import dataclasses

import pytest

from warpdeck.controller.planning.hang_verdict import Look, judge
from warpdeck.model import NodeName
from warpdeck_agent.wire.messages import Frame, RankEvidence

WAIT = [Frame("all_reduce", "distributed_c10d.py", 1320, is_library=True), Frame("step", "train.py", 20)]
LOAD = [Frame("wait", "threading.py", 320, is_library=True), Frame("load_batch", "train.py", 41)]
SERVES = [Frame("select", "selectors.py", 468, is_library=True), Frame("run", "serve.py", 9)]


def look(**stacks: list[Frame]) -> dict[tuple[NodeName, str], RankEvidence]:
    """Return a look with the stacks of ranks r0, r1, ..., two on each node."""
    return {
        (NodeName(f"node{int(name[1:]) // 2}"), name[1:]): RankEvidence(
            label=name[1:], pid=int(name[1:]) + 100, frames=frames, state="S (sleeping) in futex_wait_queue"
        )
        for name, frames in stacks.items()
    }


def changed(seen: Look, label: str, **values: object) -> Look:
    return {
        key: dataclasses.replace(each, **values) if key[1] == label else each  # type: ignore[arg-type]
        for key, each in seen.items()
    }


def verdict(*looks: Look) -> str:
    return judge(looks, passed_s=16.0, quiet_s=240.0)


STUCK = look(r0=WAIT, r1=WAIT, r2=LOAD, r3=WAIT)


def test_the_rank_that_is_not_in_the_collective_is_named() -> None:
    assert verdict(STUCK, STUCK, STUCK) == (
        "makes no progress: rank 2 on node1 is not in all_reduce: it is in load_batch (train.py:41) for 4 min;"
        " 3 other ranks wait in all_reduce"
    )


def test_no_rank_is_named_if_all_wait_for_each_other() -> None:
    seen = look(r0=WAIT, r1=WAIT)
    assert verdict(seen, seen) == (
        "makes no progress: all 2 ranks wait in all_reduce for 4 min, and no rank is outside of it"
    )


def test_a_rank_in_another_collective_is_named() -> None:
    other = [Frame("all_gather", "distributed_c10d.py", 1, is_library=True)]
    seen = look(r0=other, r1=WAIT, r2=WAIT)
    assert "rank 0 on node0 is not in all_reduce: it waits in all_gather for 4 min" in verdict(seen, seen)


def test_a_stopped_rank_is_called_stopped() -> None:
    seen = changed(STUCK, "2", state="T (stopped)")
    assert "it is stopped in load_batch (train.py:41)" in verdict(seen, seen)


def test_many_blamed_ranks_are_counted() -> None:
    seen = look(**{f"r{rank}": LOAD if rank < 5 else WAIT for rank in range(12)})
    assert "; 2 more ranks are not in it either; 7 other ranks wait in all_reduce" in verdict(seen, seen)


@pytest.mark.parametrize("label", ["0", "2"])
@pytest.mark.parametrize(
    "values", [{"frames": SERVES}, {"io_bytes": 1 << 20}, {"pid": 7}, {"frames": []}], ids=str
)
def test_there_is_no_verdict_if_any_rank_moves_or_has_no_stack(label: str, values: dict[str, object]) -> None:
    assert verdict(STUCK, changed(STUCK, label, **values)) == ""


@pytest.mark.parametrize("values", [{"cpu_s": 1.0}, {"switches": 100}], ids=str)
def test_a_rank_that_computes_or_sends_is_not_blamed(values: dict[str, object]) -> None:
    assert verdict(STUCK, changed(STUCK, "2", **values)) == ""


@pytest.mark.parametrize(
    "seen", [{}, look(r0=SERVES), look(r0=LOAD, r1=LOAD)], ids=["no rank", "server", "no wait"]
)
def test_there_is_no_verdict_without_a_known_wait(seen: Look) -> None:
    assert verdict(seen, seen, seen) == ""


@pytest.mark.parametrize("label", ["9" * 10_000, "\u0663", "\x1b[2J", "-1", "x" * 1000])
def test_a_strange_rank_is_shown_in_short(label: str) -> None:
    seen = look(r0=WAIT)
    (rank,) = seen.values()
    seen[NodeName("bad"), label] = dataclasses.replace(rank, label=label, frames=LOAD)
    found = verdict(seen, seen)
    assert "on bad is not in all_reduce" in found and len(found) < 300 and found.isprintable()


def test_names_of_the_program_are_shown_without_control_characters() -> None:
    evil = [Frame("\x1b[2Jf" + "x" * 500, "a\nb.py", 1)]
    seen = look(r0=evil, r1=WAIT)
    assert "it is in [2Jf" + "x" * 56 + " (ab.py:1)" in verdict(seen, seen)
