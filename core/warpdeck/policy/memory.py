"""What one pass may take over from the one before: the queue and the cluster as arrays. Pure but for that.

A view is immutable, and what did not change from one to the next is the same object in both; so arrays made of it still hold.
A plan with a memory is equal to one without: a memory that knows nothing makes all of it anew. It is used by one pass at a
time, and a pass that fails leaves it useless.
"""

from __future__ import annotations

from .access import is_restricted
from .ground import Ground
from .misfits import Misfits
from .queue import Queue
from .settings import Settings
from .uses import Uses
from .view import View


class Memory:
    """Follows the views of one site, pass by pass."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.queue = Queue(self.settings, is_personal=False)
        self.ground = Ground(self.settings)
        self.uses = Uses({})
        self.misfits = Misfits()
        self._misfits_of: tuple[object, ...] = ()
        """What they depend on."""

    def follow(self, view: View, settings: Settings) -> None:
        """This is what there is now."""
        is_personal = bool(view.qos or view.accounts or view.users) or any(
            map(is_restricted, view.partitions)
        )
        if settings != self.settings:
            self.settings, self.ground = settings, Ground(settings)
            self.uses = Uses(settings.billing_weights)
        queue = self.queue
        if queue.settings != settings or queue.is_personal != is_personal or queue.is_overgrown:
            self.queue = Queue(settings, is_personal=is_personal)
        self.queue.follow(view.pending)
        self.ground.follow(view)
        lifting = [qos.name for qos in view.qos if qos.overrides_partition]
        misfits_of = (self.queue, self.ground, self.ground.shapes_begun, lifting)
        if misfits_of != self._misfits_of:
            self.misfits, self._misfits_of = Misfits(), misfits_of
