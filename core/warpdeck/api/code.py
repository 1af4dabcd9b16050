"""The code of jobs, on the machine whose user has the snapshots: what it is, and how it differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpdeck.errors import UserError

if TYPE_CHECKING:
    from warpdeck.snapshots import SnapshotStore


def files(snapshot: Mapping[str, Any]) -> list[str]:
    """The paths in a snapshot. Raises UserError."""
    return _store(snapshot).files(snapshot["tree"])


def read(snapshot: Mapping[str, Any], path: str) -> bytes:
    """A file of a snapshot. Raises UserError."""
    return _store(snapshot).read(snapshot["tree"], path)


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """A unified diff between two jobs' snapshots. Raises UserError."""
    return _store(new).diff(old["tree"], new["tree"])


def diff_with_now(snapshot: Mapping[str, Any]) -> str:
    """A unified diff from a job's snapshot to its folder as it is now. Raises UserError."""
    return _store(snapshot).diff(snapshot["tree"], tree_now(snapshot))


def tree_now(snapshot: Mapping[str, Any]) -> str:
    """The tree of the snapshot's folder as it is now."""
    from warpdeck.snapshots import take  # as for the store

    now = take(snapshot["root"], snapshot["store"]).snapshot
    if now is None:
        raise UserError(f"the folder {snapshot['root']} cannot be taken now", "compare with another job")
    return str(now["tree"])


def _store(snapshot: Mapping[str, Any]) -> SnapshotStore:
    """Where it is kept. Imported here: the app's first frame would wait for hashes and compression."""
    from warpdeck.snapshots import SnapshotStore

    return SnapshotStore(snapshot["store"])
