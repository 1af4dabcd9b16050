"""Where a table's rows come from: a source that is asked for the visible ones only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Protocol

from .cells import Cell


class RowSource(Protocol):
    """Rows by position. They must not change behind the table's back: `VirtualTable.update` tells it."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> Sequence[Cell]:
        """The cells, one for each column."""

    def key(self, index: int) -> str:
        """What names the row through all updates."""

    def find(self, key: str, *, near: int) -> int | None:
        """The position of the row with that key; None where there is none, or it is not known."""

    def among(self, keys: Collection[str]) -> list[str]:
        """Those of the keys that there are, in the order of their rows."""


class KnownRows(ABC):
    """A source whose keys are all known: a row is looked for among them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def key(self, index: int) -> str: ...

    def find(self, key: str, *, near: int) -> int | None:
        """Looked for from `near` outwards: rows seldom move far."""
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
        """Looks at every row."""
        return [key for key in map(self.key, range(len(self))) if key in keys]


class RowList(KnownRows):
    """Rows that are all there: pairs of a key and its cells."""

    def __init__(self, rows: Sequence[tuple[str, Sequence[Cell]]] = ()) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Sequence[Cell]:
        return self._rows[index][1]

    def key(self, index: int) -> str:
        return self._rows[index][0]
