"""The code of jobs, on the machine whose user has the snapshots: what it is, and how it differs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError

if TYPE_CHECKING:
    from warpdeck.snapshots import SnapshotStore


def files(snapshot: Mapping[str, Any]) -> list[str]:
    """The paths in a snapshot. Raises UserError."""
    return store_of(snapshot).files(snapshot["tree"])


def read(snapshot: Mapping[str, Any], path: str) -> bytes:
    """A file of a snapshot. Raises UserError."""
    return store_of(snapshot).read(snapshot["tree"], path)


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """A unified diff between two jobs' snapshots. Raises UserError."""
    return store_of(new).diff(old["tree"], new["tree"])


def diff_with_now(snapshot: Mapping[str, Any]) -> str:
    """A unified diff from a job's snapshot to its folder as it is now. Raises UserError."""
    return store_of(snapshot).diff(snapshot["tree"], tree_now(snapshot))


def tree_now(snapshot: Mapping[str, Any]) -> str:
    """The tree of the snapshot's folder as it is now."""
    from warpdeck.snapshots import take  # as for the store

    uid = snapshot.get("uid", os.geteuid())
    if uid != os.geteuid():
        raise UserError(
            f"the folder {snapshot['root']} is another user's",
            "compare with another job, or look as its user",
        )
    now = take(snapshot["root"], snapshot["store"]).snapshot
    if now is None:
        raise UserError(f"the folder {snapshot['root']} cannot be taken now", "compare with another job")
    return str(now["tree"])


def store_of(snapshot: Mapping[str, Any]) -> SnapshotStore:
    """The store of the job's user. Imported here: the app's first frame would wait for hashes and compression."""
    from warpdeck.snapshots import SnapshotStore

    return SnapshotStore(snapshot["store"], uid=snapshot.get("uid"))
