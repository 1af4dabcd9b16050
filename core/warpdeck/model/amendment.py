"""A change of one table of the site's configuration, as clients ask for it."""

from __future__ import annotations

from typing import Annotated

import msgspec

Value = str | bool | int | float | list[str]
"""What a key may be made to say."""
MAX_DEPTH = 8
MAX_CHANGES = 10_000
"""Of one request: as many users may be named at once."""


class Amendment(msgspec.Struct, frozen=True, kw_only=True):
    """The table at `path` has these values: None takes one away. Without `values` the table goes, with all below it."""

    path: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=MAX_DEPTH)]
    values: dict[str, Value | None] | None = None
