"""Objects with different keys in different versions of a layout. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from warpdeck.slurm.fields.field import Field, Row, needs_of, table

from .numbers import NUMBER_FIELDS, NUMBER_FORMS


class Keys(NamedTuple):
    """Keys of an object in the versions from `first` to `last`, each with its field and form as in `field.table`.

    A key with periods is a key of an object within the object.
    """

    first: int
    last: int
    text: str


class Layout:
    """One kind of object in all versions."""

    def __init__(self, *parts: Keys, fields: Mapping[str, Field]) -> None:
        known = {**NUMBER_FIELDS, **fields}
        self._parts = [(part.first, part.last, table(part.text, known, NUMBER_FORMS)) for part in parts]
        self.needs = needs_of(field for _, _, keys in self._parts for field in keys.values())
        """The columns of a row that the object reads."""

    def object(self, row: Row, version: int) -> Row:
        """Return the object of a row."""
        found: Row = {}
        for first, last, keys in self._parts:
            if first <= version <= last:
                add_values(found, keys, row)
        return found


def add_values(found: Row, fields: Mapping[str, Field], row: Row) -> None:
    """Add the values of a row to an object. A key with periods is a key of an object within the object."""
    for key, field in fields.items():
        *above, last = key.split(".")
        place: dict[str, Any] = found
        for name in above:
            place = place.setdefault(name, {})
        place[last] = field.value(row)
