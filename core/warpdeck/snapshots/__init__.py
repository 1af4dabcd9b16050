"""Content-addressed snapshots of the code a job runs, in the user's own store."""

from .capture import Taken, take
from .store import SnapshotStore

__all__ = ["SnapshotStore", "Taken", "take"]
