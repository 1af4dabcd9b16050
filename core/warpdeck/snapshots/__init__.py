"""Content-addressed snapshots of the code that a job runs, kept in the user's own store."""

from .capture import Capture, capture_folder
from .store import SnapshotStore

__all__ = ["Capture", "SnapshotStore", "capture_folder"]
