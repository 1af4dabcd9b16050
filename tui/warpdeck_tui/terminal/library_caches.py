"""What Rich and Textual remember of colours, styles and pieces of lines: with each theme and size of the window other ones.

Each of these memories has a bound, and all of them full are a dozen MB. Of a theme that nobody wears any more they keep what will
not be asked for again: whoever changes the theme empties them, and what is worn fills them anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from typing import Any

OWNERS = ("rich", "textual")


def empty_caches() -> None:
    """Those with a bound; the others hold facts of classes, which do not change."""
    for cache in list(_caches()):
        if cache.cache_info().maxsize is not None:
            cache.cache_clear()


def _caches() -> Iterator[_lru_cache_wrapper[Any]]:
    """What functools has wrapped: functions of modules and of classes."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OWNERS:
            for each in list(vars(module).values()):
                inside = list(vars(each).values()) if isinstance(each, type) else [each]
                yield from (
                    found for found in map(_unwrapped, inside) if isinstance(found, _lru_cache_wrapper)
                )


def _unwrapped(member: object) -> object:
    """The function of a property, a class method or a static method."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)
