"""The node's health: the last result of every check.

Checks are repeated regularly, and changes are reported. Disks, mounts and the site's program are checked
every `interval_s`, GPUs every few seconds, Xid errors with every reading. The controller decides on
consequences (a drain, a message to the jobs); this module only reports.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, Callable, Container, Dict, List, Optional

from warpdeck_agent.gpu.gpu_health import GpuState
from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.wire.messages import AskHealth, Check
from warpdeck_agent.wire.messages import Health as Told

from .disks import Disks
from .gpu_faults import Faults
from .health_program import HealthProgram

HOT_S = 60.0
"""Thermal slowdown for longer than this, in seconds, means that the card's cooling has failed."""
COOL_S = 300.0
"""A card that overheated counts as well again after this many seconds without slowdown. It is this long
because an idle card cools at once.
"""
HELD_S = 30.0
"""GPU memory that is used for longer than this, in seconds, without a visible process will not be freed
soon.
"""
GIB = 2**30
MIN_INTERVAL_S = 1.0


class Heat:
    """Tracks the cards that have been throttled by heat for long."""

    def __init__(self) -> None:
        self._since: Dict[str, float] = {}
        self._hot: Dict[str, float] = {}

    def is_hot(self, uuid: str, throttled: bool, *, now: float) -> bool:
        """Add a reading and return whether the card counts as overheated. `now` is in monotonic seconds."""
        if throttled:
            began = self._since.setdefault(uuid, now)
            if now - began >= HOT_S or uuid in self._hot:
                self._hot[uuid] = now
        else:
            self._since.pop(uuid, None)
            if now - self._hot.get(uuid, now) >= COOL_S:
                del self._hot[uuid]
        return uuid in self._hot


class Unexplained:
    """Tracks the cards with memory that has been used for long without a visible process."""

    def __init__(self) -> None:
        self._since: Dict[str, float] = {}

    def check(self, state: GpuState, *, now: float) -> Optional[Check]:
        """Return the check of a card that no job has; None if it is well. `now` is in monotonic seconds."""
        uuid = state.card.uuid
        if not state.unexplained_bytes:
            self._since.pop(uuid, None)
            return None
        lasts = now - self._since.setdefault(uuid, now) >= HELD_S
        words = f"{state.unexplained_bytes / GIB:.1f} GiB of GPU memory are in use, but no process is visible"
        return _of(state, "gpu_memory", "fail" if lasts else "warn", words)


class Health:
    """The node's health.

    `tell` gets each change as a message for the controller; `given` returns the uuids of GPUs that jobs have.
    """

    def __init__(
        self,
        spool: Spool,
        gpus: GpuWatch,
        tell: Callable[[Any], None],
        *,
        given: Callable[[], Container[str]] = tuple,
        disks: Optional[Disks] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own = spool.own
        self._gpus = gpus
        self._tell = tell
        self._clock = clock
        self._disks = disks or Disks((spool.path, "/tmp"))
        self._rules = AskHealth(at_unix=0.0)
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._node: List[Check] = []
        self._doubts = 0
        self._cards: List[Check] = []
        self._program = HealthProgram()
        self._heat = Heat()
        self._unexplained = Unexplained()
        self._given = given
        self.faults = Faults(spool)

    async def run(self) -> None:
        """Repeat the checks forever."""
        while True:
            await self._look_at_node()
            rest = asyncio.get_running_loop().create_task(self._wake.wait())
            try:
                await asyncio.wait([rest], timeout=max(MIN_INTERVAL_S, self._rules.interval_s))
            finally:
                rest.cancel()
            self._wake.clear()

    async def asked(self, rules: AskHealth) -> Told:
        """Return the answer to AskHealth, and follow its settings from now on."""
        before, self._rules = self._rules, rules
        if (before.interval_s, before.program) != (rules.interval_s, rules.program):
            self._wake.set()
        if rules.ask:
            await asyncio.gather(self._look_at_node(), self.look_at_gpus())
        return self._told(rules)

    def doubt(self) -> None:
        """Discard the results of node checks, including running ones.

        Called when a launch or step has just failed through the node's fault.
        """
        self._doubts += 1
        self._node = []

    async def look_at_gpus(self) -> None:
        """Read the driver's states. While it does not answer, the last results stay."""
        async with self._asking:
            states = await self._gpus.look()
        if states is None:
            return
        counts = [
            (state.card, state.ecc_uncorrected) for state in states if state.ecc_uncorrected is not None
        ]
        more = [self.faults.count_ecc(card, count) for card, count in counts]
        given = self._given()
        free = [replace(each, unexplained_bytes=0) if each.card.uuid in given else each for each in states]
        checks = judge_gpus(free, self._heat, self._unexplained, now=self._clock())
        news = any(more) or _gist(checks) != _gist(self._cards)
        self._cards = checks
        if news:
            self._tell(self._told())

    def take_xids(self) -> None:
        """Process the Xid errors of the last reading."""
        news = [self.faults.add_xid(xid.card, xid.number) for xid in self._gpus.take_xids()]
        if any(news):
            self._tell(self._told())

    async def _look_at_node(self) -> None:
        async with self._looking:
            rules, doubts = self._rules, self._doubts
            checks = await self._disks.look(rules.min_free_bytes)
            if not any(check.name == "mount" and check.state == "fail" for check in checks):
                loop = asyncio.get_running_loop()
                checks.append(await loop.run_in_executor(None, self._own.check))
            if rules.program:
                loop = asyncio.get_running_loop()
                checks.append(
                    await loop.run_in_executor(
                        None, lambda: self._program.run(rules.program, timeout_s=rules.program_timeout_s)
                    )
                )
            if doubts != self._doubts:
                return
            news = _gist(checks) != _gist(self._node)
            self._node = checks
        if news:
            self._tell(self._told())

    def _told(self, asked: Optional[AskHealth] = None) -> Told:
        return Told(
            at_unix=time.time(),
            checks=[*self._node, *self._cards],
            faults=self.faults.all(),
            ask=asked.ask if asked else 0,
            asked_at_unix=asked.at_unix if asked else 0.0,
        )


def judge_gpus(states: List[GpuState], heat: Heat, unexplained: Unexplained, *, now: float) -> List[Check]:
    """Return the checks of all GPUs.

    For each check there is one entry for all cards that are well, and one for each faulty card.
    """
    lost = [
        _of(state, "gpu_lost", "fail", "the GPU has fallen off the bus") for state in states if state.lost
    ]
    there = [state for state in states if not state.lost]
    rows = [
        _of(state, "row_remap", "fail", "a memory row could not be remapped")
        if state.remap_failed
        else _of(state, "row_remap", "warn", "memory rows will be remapped at the next reset of the GPU")
        for state in there
        if state.remap_failed or state.remap_pending
    ]
    hot = [
        _of(state, "thermal", "fail", f"throttled because of heat for over {HOT_S:.0f} s")
        for state in there
        if state.throttled is not None and heat.is_hot(state.card.uuid, state.throttled, now=now)
    ]
    ecc = [
        _of(state, "ecc", "warn", f"{state.ecc_uncorrected} uncorrectable errors since the driver was loaded")
        for state in there
        if state.ecc_uncorrected
    ]
    used = [found for state in there if (found := unexplained.check(state, now=now)) is not None]
    asked = (
        ("gpu_lost", lost, len(states)),
        ("row_remap", rows, sum(state.remap_failed is not None for state in there)),
        ("thermal", hot, sum(state.throttled is not None for state in there)),
        ("gpu_memory", used, len(there)),
        ("ecc", ecc, sum(state.ecc_uncorrected is not None for state in there)),
    )
    checks: List[Check] = []
    for name, bad, count in asked:
        checks += bad or ([Check(name, "ok", f"{count} GPU{'s' * (count != 1)}")] if count else [])
    return checks


def _of(state: GpuState, name: str, verdict: str, message: str) -> Check:
    return Check(name, verdict, message, gpu=state.card.index, uuid=state.card.uuid)


def _gist(checks: List[Check]) -> List[Any]:
    """Return the part of the checks whose change is reported.

    It excludes values like the number of free bytes.
    """
    return [(check.name, check.state, check.uuid) for check in checks]
