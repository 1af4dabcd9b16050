"""Empties the caches in which Rich and Textual keep colors, styles and rendered pieces of lines.

Their entries depend on the theme and on the size of the window. Each cache has a limit, but all of them full
take a dozen MB. After a change of theme the old entries are never used again, so the code that changes the
theme empties the caches. The current theme fills them anew.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from typing import Any

OWNERS = ("rich", "textual")
CachedFunction = type(lru_cache(len))


def empty_caches() -> None:
    """Empty the caches that have a size limit.

    The other caches hold facts about classes, which do not change.
    """
    for name in list(sys.modules):
        if name.partition(".")[0] in OWNERS:
            for function in _caches(name):
                if function.cache_info().maxsize is not None:
                    function.cache_clear()


@cache
def _caches(module: str) -> tuple[Any, ...]:
    """Return the functions in an imported module and its classes that functools has wrapped with a cache.

    The modules of both libraries define all of them when they are imported, so each module is searched once.
    """
    found: list[Any] = []
    for each in list(vars(sys.modules[module]).values()):
        inside = list(vars(each).values()) if isinstance(each, type) else [each]
        found += [function for function in map(_unwrapped, inside) if isinstance(function, CachedFunction)]
    return tuple(found)


def _unwrapped(member: object) -> object:
    """Return the function inside a property, a class method or a static method."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)
