"""Interfaces for the rows of a table. The table asks a source only for its visible rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Protocol

from .cells import Cell


class RowSource(Protocol):
    """Rows by index. After any change, `VirtualTable.update` must be called."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> Sequence[Cell]:
        """Return the cells, one for each column."""

    def key(self, index: int) -> str:
        """Return the key that identifies the row in all updates."""

    def find(self, key: str, *, near: int) -> int | None:
        """Return the index of the row with this key, or None if it does not exist or is not known.

        The search begins at `near`.
        """

    def among(self, keys: Collection[str]) -> list[str]:
        """Return the existing keys among these, in the order of their rows."""


class KnownRows(ABC):
    """A source that knows all keys, so rows can be found by comparing keys."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def key(self, index: int) -> str: ...

    def find(self, key: str, *, near: int) -> int | None:
        """Search from `near` outwards, because rows seldom move far."""
        count = len(self)
        near = min(max(0, near), count - 1)
        for distance in range(count):
            below, above = near + distance, near - distance
            if below < count and self.key(below) == key:
                return below
            if above >= 0 and self.key(above) == key:
                return above
            if below >= count and above < 0:
                break
        return None

    def among(self, keys: Collection[str]) -> list[str]:
        """Return the existing keys. This looks at every row."""
        return [key for key in map(self.key, range(len(self))) if key in keys]


class RowList(KnownRows):
    """Rows from a list of pairs (key, cells)."""

    def __init__(self, rows: Sequence[tuple[str, Sequence[Cell]]] = ()) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Sequence[Cell]:
        return self._rows[index][1]

    def key(self, index: int) -> str:
        return self._rows[index][0]
