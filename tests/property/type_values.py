"""Strategies for JSON values of a type, mostly at the limits that the type declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec.inspect as types
from hypothesis import strategies as st

WIDE = 2**62
"""Bound of numbers without a specific bound."""
MOST = 3
"""Maximum number of list items; more find nothing new."""


def values(
    kind: types.Type,
    *,
    texts: Sequence[str],
    fields: Callable[[type], st.SearchStrategy[Any]],
    patterned: Sequence[str] = (),
) -> st.SearchStrategy[Any]:
    """Return values of a type.

    Texts come from `texts`, those with a pattern from `patterned`. `fields` builds objects of a class.
    """
    inner = partial(values, texts=texts, fields=fields, patterned=patterned)
    match kind:
        case types.IntType() | types.FloatType():
            low, high = (-WIDE if kind.ge is None else kind.ge), (WIDE if kind.le is None else kind.le)
            return st.sampled_from([low, high, *(near for near in (0, 1, 2, 64) if low <= near <= high)])
        case types.StrType():
            choices = texts if kind.pattern is None else patterned
            return st.sampled_from([text for text in choices if len(text) <= (kind.max_length or WIDE)])
        case types.BoolType():
            return st.booleans()
        case types.NoneType():
            return st.none()
        case types.LiteralType():
            return st.sampled_from(kind.values)
        case types.UnionType():
            return st.one_of(*map(inner, kind.types))
        case types.ListType() | types.VarTupleType():
            most = min(MOST, kind.max_length or MOST)
            return st.lists(inner(kind.item_type), min_size=kind.min_length or 0, max_size=most)
        case types.TupleType():
            return st.tuples(*map(inner, kind.item_types))
        case types.DictType():
            return st.dictionaries(inner(kind.key_type), inner(kind.value_type), max_size=2)
        case types.DataclassType() | types.StructType():
            return fields(kind.cls)
        case _:
            raise AssertionError(f"no values are made for {kind}")


def some_of(
    fields: dict[str, st.SearchStrategy[Any]], *, must: set[str], most: int
) -> st.SearchStrategy[dict[str, Any]]:
    """Return the required fields of an object, and some of the others."""
    others = sorted(fields.keys() - must) or sorted(fields)
    return st.sets(st.sampled_from(others), max_size=most).flatmap(
        lambda chosen: st.fixed_dictionaries(
            {name: each for name, each in fields.items() if name in must or name in chosen}
        )
    )
