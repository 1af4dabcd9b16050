"""A change of one table of the site's configuration, as a client requests it."""

from __future__ import annotations

from typing import Annotated

import msgspec

Value = str | bool | int | float | list[str]
"""A value of a configuration key."""
MAX_DEPTH = 8
MAX_CHANGES = 10_000
"""Maximum number of changes in one request. One request may name this many users."""


class Amendment(msgspec.Struct, frozen=True, kw_only=True):
    """New values for the keys of the table at `path`.

    A value of None removes the key. If `values` itself is None, the table is removed together with all tables
    below it.
    """

    path: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=MAX_DEPTH)]
    values: dict[str, Value | None] | None = None
