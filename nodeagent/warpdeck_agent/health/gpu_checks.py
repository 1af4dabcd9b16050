"""The health checks of the node's GPUs: lost cards, memory errors, heat, and memory without a process."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Callable, Container, Dict, List, Optional

from warpdeck_agent.gpu.gpu_health import GpuState
from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.wire.messages import Check

from .check_results import CheckResults
from .gpu_faults import FaultLog

HOT_S = 60.0
"""If a card is throttled because of heat for longer than this, in seconds, its cooling has failed."""
COOL_S = 300.0
"""An overheated card counts as healthy again after this many seconds without throttling. The time is long
because an idle card cools at once.
"""
HELD_S = 30.0
"""GPU memory without a visible process will not be freed soon if it is in use for longer than this, in
seconds.
"""
GIB = 2**30


class HeatTracker:
    """Tracks the cards that were throttled because of heat for long."""

    def __init__(self) -> None:
        self._throttled_since: Dict[str, float] = {}
        self._hot_at: Dict[str, float] = {}
        """The last time at which each overheated card was throttled."""

    def is_hot(self, uuid: str, throttled: bool, *, now: float) -> bool:
        """Add a reading and return whether the card counts as overheated. `now` is in monotonic seconds."""
        if throttled:
            since = self._throttled_since.setdefault(uuid, now)
            if now - since >= HOT_S or uuid in self._hot_at:
                self._hot_at[uuid] = now
        else:
            self._throttled_since.pop(uuid, None)
            if now - self._hot_at.get(uuid, now) >= COOL_S:
                del self._hot_at[uuid]
        return uuid in self._hot_at


class UnexplainedMemory:
    """Tracks the cards with memory that has been in use for long without a visible process."""

    def __init__(self) -> None:
        self._since: Dict[str, float] = {}

    def check(self, state: GpuState, *, now: float) -> Optional[Check]:
        """Return the check of a card that no job uses, or None if the card is healthy.

        `now` is in monotonic seconds.
        """
        uuid = state.card.uuid
        if not state.unexplained_bytes:
            self._since.pop(uuid, None)
            return None
        is_long = now - self._since.setdefault(uuid, now) >= HELD_S
        message = (
            f"{state.unexplained_bytes / GIB:.1f} GiB of GPU memory are in use, but no process is visible"
        )
        return _check(state, "gpu_memory", "fail" if is_long else "warn", message)


class GpuChecks:
    """Checks the GPUs, one run at a time, and keeps the last results.

    `in_use` returns the uuids of the GPUs that jobs have.
    """

    def __init__(
        self,
        gpus: GpuWatch,
        faults: FaultLog,
        *,
        in_use: Callable[[], Container[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpus = gpus
        self._faults = faults
        self._in_use = in_use
        self._clock = clock
        self._heat = HeatTracker()
        self._unexplained = UnexplainedMemory()
        self._reading = asyncio.Lock()
        self.results = CheckResults()

    async def run(self) -> bool:
        """Read the states of the cards and check them. Returns whether a result or a fault is new.

        While the driver does not answer, the last results stay.
        """
        async with self._reading:
            states = await self._gpus.read_states()
        if states is None:
            return False
        counts = [
            (state.card, state.ecc_uncorrected) for state in states if state.ecc_uncorrected is not None
        ]
        new_faults = [self._faults.count_ecc(card, count) for card, count in counts]
        in_use = self._in_use()
        states = [
            replace(state, unexplained_bytes=0) if state.card.uuid in in_use else state for state in states
        ]
        checks = judge_gpus(states, self._heat, self._unexplained, now=self._clock())
        has_changed = self.results.replace(checks)
        return any(new_faults) or has_changed

    def take_xids(self) -> bool:
        """Add the Xid errors of the last reading to the faults. Returns whether one of them is new."""
        new_faults = [self._faults.add_xid(xid.card, xid.number) for xid in self._gpus.take_xids()]
        return any(new_faults)


def judge_gpus(
    states: List[GpuState], heat: HeatTracker, unexplained: UnexplainedMemory, *, now: float
) -> List[Check]:
    """Return the checks of all GPUs.

    Each check has one result for all healthy cards together, or one for each faulty card.
    """
    lost = [
        _check(state, "gpu_lost", "fail", "the GPU has fallen off the bus") for state in states if state.lost
    ]
    present = [state for state in states if not state.lost]
    rows = [
        _check(state, "row_remap", "fail", "a memory row could not be remapped")
        if state.remap_failed
        else _check(state, "row_remap", "warn", "memory rows will be remapped at the next reset of the GPU")
        for state in present
        if state.remap_failed or state.remap_pending
    ]
    hot = [
        _check(state, "thermal", "fail", f"throttled because of heat for over {HOT_S:.0f} s")
        for state in present
        if state.throttled is not None and heat.is_hot(state.card.uuid, state.throttled, now=now)
    ]
    ecc = [
        _check(
            state, "ecc", "warn", f"{state.ecc_uncorrected} uncorrectable errors since the driver was loaded"
        )
        for state in present
        if state.ecc_uncorrected
    ]
    memory = [found for state in present if (found := unexplained.check(state, now=now)) is not None]
    groups = (
        ("gpu_lost", lost, len(states)),
        ("row_remap", rows, sum(state.remap_failed is not None for state in present)),
        ("thermal", hot, sum(state.throttled is not None for state in present)),
        ("gpu_memory", memory, len(present)),
        ("ecc", ecc, sum(state.ecc_uncorrected is not None for state in present)),
    )
    checks: List[Check] = []
    for name, faulty, count in groups:
        checks += faulty or ([Check(name, "ok", f"{count} GPU{'s' * (count != 1)}")] if count else [])
    return checks


def _check(state: GpuState, name: str, verdict: str, message: str) -> Check:
    return Check(name, verdict, message, gpu=state.card.index, uuid=state.card.uuid)
