"""Content-addressed snapshots of the code that a job runs, kept in the user's own store."""

from .capture import Taken, take
from .store import SnapshotStore

__all__ = ["SnapshotStore", "Taken", "take"]
