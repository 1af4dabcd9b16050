"""Who kept memory of the GPUs without being a job of ours, by the minute of a day.

Of each GPU and each minute the most that every user's processes had at a time, of a few users; and memory that was used where
no process was seen. What was the same a minute before takes no memory of its own: mostly nobody is there.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Tuple

from warpdeck_agent.wire.messages import GpuSample, Strangers

MINUTE_S = 60.0
MOST_MINUTES = 1440
MOST_USERS = 4
"""Of a GPU in a minute, those with the most memory."""


class Seen(NamedTuple):
    """On one GPU in one minute."""

    users: Tuple[Tuple[str, int], ...] = ()
    """(user, bytes), the most first."""
    unexplained_bytes: int = 0

    def told(self, index: int) -> Strangers:
        """For the wire."""
        return Strangers(index=index, mem_bytes=dict(self.users), unexplained_bytes=self.unexplained_bytes)


NOBODY = Seen()
Minute = Dict[str, Seen]
"""By the uuid of the GPU; one that could not be read is not there."""


class StrangersSeen:
    """Fed with every reading."""

    def __init__(self) -> None:
        self._minutes: Dict[int, Minute] = {}

    def take(self, uuid: str, gpu: GpuSample, now: float) -> None:
        """A reading of one GPU."""
        if gpu.error:
            return
        of_minute = self._minutes.setdefault(int(now // MINUTE_S), {})
        before = of_minute.get(uuid, NOBODY)
        of_minute[uuid] = _joined(before, gpu)

    def close(self, number: int) -> Minute:
        """A minute is over: what was seen in it."""
        return self.recall(number, self._minutes.get(number, {}))

    def recall(self, number: int, found: Minute) -> Minute:
        """What is known of a minute. One that is like the one before it is kept once."""
        before = self._minutes.get(number - 1)
        self._minutes[number] = found = before if before is not None and before == found else found
        while len(self._minutes) > MOST_MINUTES:
            del self._minutes[next(iter(self._minutes))]
        return found

    def at(self, uuid: str, at_unix: float) -> Optional[Seen]:
        """What was seen in the minute of that moment; None: it is not known."""
        return self._minutes.get(int(at_unix // MINUTE_S), {}).get(uuid)


def _joined(before: Seen, gpu: GpuSample) -> Seen:
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
    return Seen(tuple(users), max(gpu.unexplained_bytes, before.unexplained_bytes))
