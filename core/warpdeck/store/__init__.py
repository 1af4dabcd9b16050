"""Durable state: SqliteStore for real, MemoryStore for the simulator. Both pass one contract suite."""

from .memory import MemoryStore
from .sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore"]
