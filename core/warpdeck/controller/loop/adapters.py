"""The implementations of the ports that the controller's loop uses: store, fleet, code, output files and
clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warpdeck.base.controller_starts import StartMaker
from warpdeck.ports.ports import Fleet, OutputCollector, TreeCache
from warpdeck.ports.store import Store


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """Implementations of the ports. A simulation passes its own clock, fleet and store."""

    store: Store
    fleet: Fleet
    trees: TreeCache
    outputs: OutputCollector
    clock: Callable[[], float]
    """Returns Unix seconds."""
    submit_host: str
    """Host name of the machine on which the controller runs."""
    starts: StartMaker | None = None
    """Makes the numbered starts of the controller. A simulation has none."""
