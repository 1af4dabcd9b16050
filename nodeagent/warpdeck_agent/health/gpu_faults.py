"""Persistent faults of this node's GPUs, stored on disk for a controller that was not connected at the time.

Fault numbers ascend forever, even if the agent's folder was lost, because each is at least the time in
milliseconds. The controller remembers the last number that it has handled, so that each fault drains a GPU
once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from typing import Any, Callable, Dict, List

from warpdeck_agent.gpu.gpu_health import Card, describe_xid
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import Fault

KEPT = 32
"""The most stored faults. A failing card reports the same fault many times."""
REPEAT_S = 60.0
"""The same Xid of the same card within this time, in seconds, counts as the same fault."""
FILE = "faults.json"


class FaultLog:
    """The last faults, oldest first."""

    def __init__(self, folder: Folder, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._faults: List[Fault] = []
        self._ecc: Dict[str, int] = {}
        self._load()

    def all(self) -> List[Fault]:
        """Return a copy of the list of faults."""
        return list(self._faults)

    def add_xid(self, card: Card, xid: int) -> bool:
        """Add an Xid error. Returns whether it is new."""
        now = self._clock()
        for known in self._faults:
            if (known.uuid, known.xid) == (card.uuid, xid) and 0 <= now - known.at_unix < REPEAT_S:
                return False
        self._add(card, check="xid", message=describe_xid(xid), xid=xid)
        return True

    def count_ecc(self, card: Card, total: int) -> bool:
        """Set the number of uncorrectable errors since the driver was loaded.

        Returns whether it has increased.
        """
        known = self._ecc.get(card.uuid, 0)
        if total == known:
            return False
        self._ecc[card.uuid] = total
        if total < known:  # the counter was reset with the driver
            known = 0
        if total > known:
            more = total - known
            self._add(card, check="ecc", message=f"{more} uncorrectable ECC error{'s' * (more != 1)}")
        else:
            self._keep()
        return total > known

    def _add(self, card: Card, *, check: str, message: str, xid: int = 0) -> None:
        now = self._clock()
        last = self._faults[-1].number if self._faults else 0
        number = max(last + 1, int(now * 1000))
        made = Fault(
            number=number,
            at_unix=now,
            check=check,
            gpu=card.index,
            uuid=card.uuid,
            message=message,
            xid=xid,
        )
        self._faults = [*self._faults, made][-KEPT:]
        self._keep()

    def _keep(self) -> None:
        text = json.dumps({"faults": [dataclasses.asdict(each) for each in self._faults], "ecc": self._ecc})
        with contextlib.suppress(OSError):  # on a full disk, only a restarted agent loses them
            self._folder.write(FILE, text)

    def _load(self) -> None:
        try:
            kept: Dict[str, Any] = json.loads(self._folder.read(FILE) or "{}")
            self._faults = [Fault(**each) for each in kept.get("faults", ())]
            self._ecc = {str(uuid): int(count) for uuid, count in kept.get("ecc", {}).items()}
        except (ValueError, TypeError, AttributeError):  # after a power failure, or a file of another version
            self._faults, self._ecc = [], {}
