"""The recorded code of jobs: its files, and its differences from other code.

It runs on the machine of the user who owns the snapshots.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import UserError

if TYPE_CHECKING:
    from warpdeck.snapshots import SnapshotStore


def files(snapshot: Mapping[str, Any]) -> list[str]:
    """Return the paths in a snapshot. Raises UserError."""
    return store_of(snapshot).files(snapshot["tree"])


def read(snapshot: Mapping[str, Any], path: str) -> bytes:
    """Return the content of a snapshot's file. Raises UserError."""
    return store_of(snapshot).read(snapshot["tree"], path)


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return a unified diff between the snapshots of two jobs. Raises UserError."""
    return store_of(new).diff(old["tree"], new["tree"])


def diff_with_now(snapshot: Mapping[str, Any]) -> str:
    """Return a unified diff from a job's snapshot to the current content of its folder. Raises UserError."""
    return store_of(snapshot).diff(snapshot["tree"], tree_now(snapshot))


def branch(snapshot: Mapping[str, Any]) -> str:
    """Return the branch that was checked out when the snapshot was taken, or "" if there was none. Raises UserError."""
    return str(store_of(snapshot).meta(snapshot["tree"]).get("branch", ""))


def diff_with_commit(snapshot: Mapping[str, Any]) -> str:
    """Return a unified diff from the commit on which a snapshot is based to the snapshot. Raises UserError.

    A snapshot without a commit has no such diff, and the one of another user is not compared.
    """
    if not snapshot.get("head") or snapshot.get("uid", os.geteuid()) != os.geteuid():
        return ""
    return store_of(snapshot).diff_with_commit(snapshot["head"], snapshot["tree"], root=snapshot["root"])


def tree_now(snapshot: Mapping[str, Any]) -> str:
    """Return the id of a tree with the current content of the snapshot's folder. Raises UserError."""
    from warpdeck.snapshots import capture_folder  # Imported here for the same reason as in store_of.

    uid = snapshot.get("uid", os.geteuid())
    if uid != os.geteuid():
        raise UserError(
            f"the folder {snapshot['root']} belongs to another user",
            "compare with another job, or run this as that user",
        )
    now = capture_folder(snapshot["root"], snapshot["store"]).snapshot
    if now is None:
        raise UserError(
            f"cannot take a snapshot of the folder {snapshot['root']}", "compare with another job"
        )
    return str(now["tree"])


def store_of(snapshot: Mapping[str, Any]) -> SnapshotStore:
    """Return the snapshot store of the job's user.

    The import is local, because otherwise the app's first frame would wait for the hash and compression
    modules.
    """
    from warpdeck.snapshots import SnapshotStore

    return SnapshotStore(snapshot["store"], uid=snapshot.get("uid"))
