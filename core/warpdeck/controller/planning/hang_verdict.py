"""Decides from the evidence of all ranks whether a job hangs, and which rank is to blame. Pure.

Data: several looks at a job, some seconds apart. A look has the evidence of each rank: its stack, the state of its main
thread, and its counters.

Decision (`judge`): there is a verdict only if

- no rank has moved: its stack is the same in all looks, and it has neither read nor written;
- at least one rank is in a function in which ranks wait for each other or for data (WAITS, WAIT_FILES). A server that waits for
  requests, or any other program that waits for its user, is therefore never called a hang;
- all other ranks are idle. A rank that computes may be doing what the others wait for.

The ranks that are not in the function in which most ranks wait are to blame. If all ranks wait in the same function, no rank
is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from warpdeck.controller.events.events import HANG
from warpdeck.model import NodeName
from warpdeck_agent.wire.messages import Frame, RankEvidence

IO_BYTES = 64 * 1024
"""Bytes that a rank may move between the first and the last look without counting as active."""
IDLE_CORES = 0.02
"""Most CPU time per second of an idle rank. A rank that sends a checkpoint over the network uses more."""
IDLE_SWITCHES = 1.0
"""Most waits per second of the main thread of an idle rank. A thread that polls a queue waits less often."""
MAX_NAMED = 3
"""The most ranks to blame that are described one by one."""
MAX_CHARS = 60
MAX_DIGITS = 9
"""The most digits of a rank. A node may send any text."""
COLLECTIVES = frozenset(
    (
        "all_reduce", "all_gather", "all_gather_into_tensor", "all_to_all", "barrier", "broadcast", "reduce_scatter",
        "reduce_scatter_tensor", "allreduce", "allgather", "alltoall", "Barrier", "Allreduce", "Allgather",
        "process_allgather", "sync_global_devices",
    )
)  # fmt: skip
"""Functions of torch.distributed, mpi4py, Horovod and JAX in which ranks wait for each other."""
WAITS = COLLECTIVES | {"backward", "synchronize", "_try_get_data", "_next_data"}
"""Also functions in which a training step waits for its GPU, or for a process that loads data."""
WAIT_FILES = frozenset(("distributed_c10d.py",))
"""Files of torch.distributed of which every function counts. Names such as recv alone say too little."""

Look = Mapping[tuple[NodeName, str], RankEvidence]
"""The evidence of each rank by node and rank."""


def judge(looks: Sequence[Look], *, passed_s: float, quiet_s: float) -> str:
    """Return a sentence about a job that hangs, or "". `passed_s` is the time from the first look to the last one."""
    last = looks[-1]
    if (
        not last
        or any(look.keys() != last.keys() for look in looks)
        or not all(map(_has_stack, last.values()))
    ):
        return ""
    if any(_has_moved([look[key] for look in looks]) for key in last):
        return ""
    waits = {key: wait for key, each in last.items() if (wait := wait_of(each.frames))}
    if not waits:
        return ""
    common, _ = Counter(waits.values()).most_common(1)[0]
    blamed = {key: last[key] for key in last if waits.get(key) != common}
    if any(not _is_idle(looks[0][key], each, passed_s) for key, each in blamed.items() if key not in waits):
        return ""
    return HANG + _sentence(last, blamed, waits, common=common, quiet_s=quiet_s)


def wait_of(frames: Iterable[Frame]) -> str:
    """Return the innermost function on a stack in which a rank waits, "" if there is none."""
    return next(
        (_clean(frame.name) for frame in frames if frame.name in WAITS or frame.file in WAIT_FILES), ""
    )


def _has_stack(rank: RankEvidence) -> bool:
    return bool(rank.frames)


def _has_moved(seen: Sequence[RankEvidence]) -> bool:
    first, last = seen[0], seen[-1]
    return (
        any(each.pid != last.pid or each.frames != last.frames for each in seen)
        or last.io_bytes - first.io_bytes >= IO_BYTES
    )


def _is_idle(first: RankEvidence, last: RankEvidence, passed_s: float) -> bool:
    return (
        last.cpu_s - first.cpu_s <= IDLE_CORES * passed_s
        and last.switches - first.switches <= IDLE_SWITCHES * passed_s
    )


def _sentence(
    ranks: Look,
    blamed: Look,
    waits: Mapping[tuple[NodeName, str], str],
    *,
    common: str,
    quiet_s: float,
) -> str:
    waiting, since = len(ranks) - len(blamed), _minutes(quiet_s)
    if not blamed:
        if waiting == 1:
            (key,) = ranks
            return f"{_rank(key)} waits in {common} for {since}"
        return f"all {waiting} ranks wait in {common} for {since}, and no rank is outside of it"
    named = [
        f"{_rank(key)} is not in {common}: it {_doing(each, waits.get(key, ''))} for {since}"
        for key, each in sorted(blamed.items(), key=lambda item: _order(item[0]))[:MAX_NAMED]
    ]
    if len(blamed) > MAX_NAMED:
        more = len(blamed) - MAX_NAMED
        named.append(f"{more} more {'rank is' if more == 1 else 'ranks are'} not in it either")
    verb = "rank waits" if waiting == 1 else "ranks wait"
    return "; ".join([*named, f"{waiting} other {verb} in {common}"])


def _doing(rank: RankEvidence, wait: str) -> str:
    if rank.state.startswith("T"):
        return f"is stopped in {_place(rank.frames)}"
    return f"waits in {wait}" if wait else f"is in {_place(rank.frames)}"


def _place(frames: Sequence[Frame]) -> str:
    """Return the innermost function of the user's own code, or else the innermost one."""
    own = next((frame for frame in frames if not frame.is_library), frames[0])
    return f"{_clean(own.name)} ({_clean(own.file)}:{own.line})"


def _clean(name: str) -> str:
    """Return a name of the user's program without control characters, and not too long."""
    return "".join(each for each in name if each.isprintable())[:MAX_CHARS]


def _rank(key: tuple[NodeName, str]) -> str:
    node, label = key
    return f"rank {_clean(label)} on {node}" if label else f"the program on {node}"


def _order(key: tuple[NodeName, str]) -> tuple[int, str]:
    node, label = key
    return int(label) if label.isdecimal() and len(label) <= MAX_DIGITS else -1, node


def _minutes(seconds: float) -> str:
    return f"{round(seconds / 60)} min" if seconds >= 90 else f"{round(seconds)} s"
