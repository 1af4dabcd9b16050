"""Durable state. `SqliteStore` is used in production and `MemoryStore` by the simulator.

The same contract tests run against both.
"""

from .memory import MemoryStore
from .sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore"]
