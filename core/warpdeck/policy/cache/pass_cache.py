"""Cache that keeps the arrays of queue and cluster from one pass to the next.

A view is immutable, and unchanged parts are the same objects in consecutive views, so arrays made from them
remain valid. A plan with a cache equals a plan without one, because an empty cache rebuilds everything. Only
one pass may use a cache at a time, and a pass that fails leaves it unusable.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.view import NodeView, PlannerView
from warpdeck.policy.limits.access import is_restricted
from warpdeck.policy.limits.usage_by_scope import UsageByScope

from .cluster_table import ClusterTable
from .unplaceable import UnplaceableClasses
from .waiting_queue import WaitingQueue


class PassCache:
    """Cached data of one site, updated to the view of each pass."""

    def __init__(self) -> None:
        self.settings = PlannerSettings()
        self.queue = WaitingQueue(self.settings, is_personal=False)
        self.cluster_table = ClusterTable(self.settings)
        self.usage_by_scope = UsageByScope({})
        self.unplaceable_classes = UnplaceableClasses()
        self._owners: frozenset[str] | None = None
        """Users with exclusive requests or jobs (--exclusive=user); None if no job or partition is exclusive.
        """
        self._unplaceable_key: tuple[object, ...] = ()
        """The values on which the contents of `unplaceable_classes` depend."""

    def follow(self, view: PlannerView, settings: PlannerSettings) -> PlannerView:
        """Update the cache to a new view.

        Returns the view with its nodes sorted by name, because equally good nodes are used in this order.
        """
        if view.nodes is not self.cluster_table.nodes and not _are_by_name(view.nodes):
            nodes = tuple(sorted(view.nodes, key=lambda node: node.name))
            view = msgspec.structs.replace(view, nodes=nodes)
        draws = tuple(each for each in view.reservations if each.magnetic)
        limits_people = bool(draws or view.qos or view.accounts or view.users) or any(
            map(is_restricted, view.partitions)
        )
        if settings != self.settings:
            self.settings, self.cluster_table = settings, ClusterTable(settings)
            self.usage_by_scope = UsageByScope(settings.billing_weights)
        self._follow_queue(view, limits_people)
        self.cluster_table.follow(view)
        self._owners = self._find_owners(view)
        self.cluster_table.classes.set_owners(self._owners)
        self._follow_queue(view, limits_people)
        lifting = [qos.name for qos in view.qos if qos.overrides_partition]
        unplaceable_key = (
            self.queue,
            self.cluster_table,
            self.cluster_table.classes.generation,
            lifting,
            draws,
        )
        if unplaceable_key != self._unplaceable_key:
            self.unplaceable_classes, self._unplaceable_key = UnplaceableClasses(), unplaceable_key
        return view

    def _follow_queue(self, view: PlannerView, limits_people: bool) -> None:
        queue, is_personal, owners = self.queue, limits_people, self._owners or frozenset()
        is_other = queue.settings != self.settings or queue.is_personal != is_personal
        if is_other or queue.owners != owners or queue.is_overgrown:
            self.queue = WaitingQueue(self.settings, is_personal=is_personal, owners=owners)
        self.queue.follow(view.pending)

    def _find_owners(self, view: PlannerView) -> frozenset[str] | None:
        parted = frozenset(part.name for part in view.partitions if part.exclusive_user)
        if not (parted or self.cluster_table.excludes_users or self.queue.excludes_users):
            return None
        return self.cluster_table.running_users().owners() | self.queue.exclusive_users(parted)


def _are_by_name(nodes: Sequence[NodeView]) -> bool:
    return all(one.name < other.name for one, other in pairwise(nodes))
