"""The launches on nodes that the controller's database does not explain, because it is older than they are."""

from __future__ import annotations

import msgspec

from .ids import JobId, NodeName

RUNNING, ENDED, FORGOTTEN = "running", "ended", "forgotten"
"""States of an unknown launch. A forgotten one has ended, and another controller has recorded its end."""


class UnknownLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch on a node that the controller does not know."""

    node: NodeName
    job_id: JobId
    restarts: int
    phase: str
    """RUNNING, ENDED or FORGOTTEN."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the database is older than the launches of the nodes. It is durable."""

    since_unix: float = 0.0
    """Time at which the first unknown launch was found."""
    launches: tuple[UnknownLaunch, ...] = ()
    """The unknown launches. While there is one, the controller starts no jobs."""
    lost_ids: tuple[tuple[int, int], ...] = ()
    """Ranges of job ids that the lost part of the database may have given, without those that were recovered."""

    adopted: tuple[tuple[int, int], ...] = ()
    """Unfinished starts (job id, restarts) that were adopted. Their earlier steps are not known."""

    @property
    def is_needed(self) -> bool:
        return bool(self.launches)

    def lost(self, job_id: int) -> bool:
        """Return whether the lost part of the database may have given this id."""
        return any(first <= job_id <= last for first, last in self.lost_ids)

    def covers(self, job_id: int, restarts: int) -> bool:
        """Return whether the launch is unknown or was adopted, so that its steps are not known."""
        return (job_id, restarts) in self.adopted or any(
            (each.job_id, each.restarts) == (job_id, restarts) for each in self.launches
        )

    def with_lost_ids(self, first: int, last: int) -> Recovery:
        """Return the recovery with one more range of ids."""
        return msgspec.structs.replace(self, lost_ids=(*self.lost_ids, (first, last)))

    def with_launch(self, launch: UnknownLaunch, *, now: float) -> Recovery:
        """Return the recovery with this launch, in place of its previous state."""
        others = tuple(each for each in self.launches if _key(each) != _key(launch))
        since_unix = self.since_unix if self.launches else now
        return msgspec.structs.replace(self, launches=(*others, launch), since_unix=since_unix)

    def without(self, launches: tuple[UnknownLaunch, ...]) -> Recovery:
        """Return the recovery after these launches were adopted or discarded. Their ids are not lost any more."""
        done, ids = {_key(each) for each in launches}, {int(each.job_id) for each in launches}
        left = tuple(each for each in self.launches if _key(each) not in done)
        return msgspec.structs.replace(self, launches=left, lost_ids=tuple(_without(self.lost_ids, ids)))


def _key(launch: UnknownLaunch) -> tuple[str, int, int]:
    return launch.node, launch.job_id, launch.restarts


def _without(ranges: tuple[tuple[int, int], ...], ids: set[int]) -> list[tuple[int, int]]:
    left: list[tuple[int, int]] = []
    for first, last in ranges:
        at = first
        for gone in sorted(each for each in ids if first <= each <= last):
            if at < gone:
                left.append((at, gone - 1))
            at = gone + 1
        if at <= last:
            left.append((at, last))
    return left
