"""History of the GPU memory that foreign processes, which belong to no job, used in each minute of a day.

For each GPU and minute, it keeps the largest amount that the processes of a user held at one time, for a few
users. It also keeps the largest amount without a visible process. Mostly there are no foreign processes, so a
minute with the same values as the minute before takes no extra memory.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Tuple

from warpdeck_agent.wire.messages import GpuSample, Strangers

MINUTE_S = 60.0
MOST_MINUTES = 1440
MOST_USERS = 4
"""The most users per GPU and minute; the users with the most memory are kept."""


class ForeignUse(NamedTuple):
    """The memory of one GPU that foreign processes used in one minute."""

    users: Tuple[Tuple[str, int], ...] = ()
    """(user, bytes), the largest first."""
    unexplained_bytes: int = 0

    def to_wire(self, index: int) -> Strangers:
        """Return the message for the wire."""
        return Strangers(index=index, mem_bytes=dict(self.users), unexplained_bytes=self.unexplained_bytes)


NOBODY = ForeignUse()
Minute = Dict[str, ForeignUse]
"""Values by the GPU's uuid. A GPU that could not be read is absent."""


class ForeignUseHistory:
    """The history of foreign GPU memory. It is fed with every reading."""

    def __init__(self) -> None:
        self._minutes: Dict[int, Minute] = {}

    def add_reading(self, uuid: str, gpu: GpuSample, now: float) -> None:
        """Add a reading of one GPU."""
        if gpu.error:
            return
        of_minute = self._minutes.setdefault(int(now // MINUTE_S), {})
        before = of_minute.get(uuid, NOBODY)
        of_minute[uuid] = _joined(before, gpu)

    def close(self, number: int) -> Minute:
        """Finish a minute and return its values."""
        return self.recall(number, self._minutes.get(number, {}))

    def recall(self, number: int, found: Minute) -> Minute:
        """Store the values of a minute. Values that equal those of the previous minute are stored once."""
        before = self._minutes.get(number - 1)
        self._minutes[number] = found = before if before is not None and before == found else found
        while len(self._minutes) > MOST_MINUTES:
            del self._minutes[next(iter(self._minutes))]
        return found

    def at(self, uuid: str, at_unix: float) -> Optional[ForeignUse]:
        """Return the values of the minute that contains that moment; None if they are not known."""
        return self._minutes.get(int(at_unix // MINUTE_S), {}).get(uuid)


def _joined(before: ForeignUse, gpu: GpuSample) -> ForeignUse:
    now: Dict[str, int] = {}
    for process in gpu.processes:
        if not process.job_id:
            now[process.user] = now.get(process.user, 0) + process.mem_bytes
    if not now and gpu.unexplained_bytes <= before.unexplained_bytes:
        return before
    most = dict(before.users)
    for user, mem_bytes in now.items():
        most[user] = max(mem_bytes, most.get(user, 0))
    users = sorted(most.items(), key=lambda each: (-each[1], each[0]))[:MOST_USERS]
    return ForeignUse(tuple(users), max(gpu.unexplained_bytes, before.unexplained_bytes))
