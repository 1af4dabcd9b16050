"""Empties the caches in which Rich and Textual keep colors, styles and rendered pieces of lines.

Their entries depend on the theme and on the size of the window. Each cache has a limit, but all of them full
take a dozen MB. After a change of theme the old entries are never used again, so the code that changes the
theme empties the caches. The current theme fills them anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

OWNERS = ("rich", "textual")
CachedFunction = type(lru_cache(len))


def empty_caches() -> None:
    """Empty the caches that have a size limit.

    The other caches hold facts about classes, which do not change.
    """
    for cache in list(_caches()):
        if cache.cache_info().maxsize is not None:
            cache.cache_clear()


def _caches() -> Iterator[Any]:
    """Yield the functions in modules and classes that functools has wrapped with a cache."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OWNERS:
            for each in list(vars(module).values()):
                inside = list(vars(each).values()) if isinstance(each, type) else [each]
                yield from (found for found in map(_unwrapped, inside) if isinstance(found, CachedFunction))


def _unwrapped(member: object) -> object:
    """Return the function inside a property, a class method or a static method."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)
