"""What one pass may take over from the one before: the queue and the cluster as arrays. Pure but for that.

A view is immutable, and what did not change from one to the next is the same object in both; so arrays made of it still hold.
A plan with a memory is equal to one without: a memory that knows nothing makes all of it anew. It is used by one pass at a
time, and a pass that fails leaves it useless.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from warpdeck.policy.input.settings import Settings
from warpdeck.policy.input.view import NodeView, View
from warpdeck.policy.limits.access import is_restricted
from warpdeck.policy.limits.usage_by_scope import Uses

from .cluster_table import Ground
from .unplaceable import Misfits
from .waiting_queue import Queue


class Memory:
    """Follows the views of one site, pass by pass."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.queue = Queue(self.settings, is_personal=False)
        self.ground = Ground(self.settings)
        self.uses = Uses({})
        self.misfits = Misfits()
        self._owners: frozenset[str] | None = None
        """The users to whom it matters whose jobs are on their nodes; None where it can matter to nobody."""
        self._misfits_of: tuple[object, ...] = ()
        """What they depend on."""

    def follow(self, view: View, settings: Settings) -> View:
        """This is what there is now. Returns it with its nodes by name: nodes that are equally good are taken in this order."""
        if view.nodes is not self.ground.nodes and not _are_by_name(view.nodes):
            nodes = tuple(sorted(view.nodes, key=lambda node: node.name))
            view = msgspec.structs.replace(view, nodes=nodes)
        draws = tuple(each for each in view.reservations if each.magnetic)
        limits_people = bool(draws or view.qos or view.accounts or view.users) or any(
            map(is_restricted, view.partitions)
        )
        if settings != self.settings:
            self.settings, self.ground = settings, Ground(settings)
            self.uses = Uses(settings.billing_weights)
        self._follow_queue(view, limits_people)
        self.ground.follow(view)
        self._owners = self._find_owners(view)
        self.ground.set_owners(self._owners)
        self._follow_queue(view, limits_people)
        lifting = [qos.name for qos in view.qos if qos.overrides_partition]
        misfits_of = (self.queue, self.ground, self.ground.shapes_begun, lifting, draws)
        if misfits_of != self._misfits_of:
            self.misfits, self._misfits_of = Misfits(), misfits_of
        return view

    def _follow_queue(self, view: View, limits_people: bool) -> None:
        queue, is_personal, owners = self.queue, limits_people, self._owners or frozenset()
        is_other = queue.settings != self.settings or queue.is_personal != is_personal
        if is_other or queue.owners != owners or queue.is_overgrown:
            self.queue = Queue(self.settings, is_personal=is_personal, owners=owners)
        self.queue.follow(view.pending)

    def _find_owners(self, view: View) -> frozenset[str] | None:
        parted = frozenset(part.name for part in view.partitions if part.exclusive_user)
        if not (parted or self.ground.users_apart or self.queue.users_apart):
            return None
        return self.ground.who_runs().owners() | self.queue.users_who_want(parted)


def _are_by_name(nodes: Sequence[NodeView]) -> bool:
    return all(one.name < other.name for one, other in pairwise(nodes))
