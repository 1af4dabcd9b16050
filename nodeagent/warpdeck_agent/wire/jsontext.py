"""JSON as text, by the C parts that the json package itself is made of.

The package imports the regular expressions, which is 7 ms to a program that lives 15; nothing here does.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLANKS = " \t\n\r"


class _Reading:
    """What the scanner asks of a decoder: plain values."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    """Of NaN and the infinities, by their names."""


_scan = make_scanner(_Reading)  # type: ignore[arg-type]  # any object with these attributes will do


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, True)


def dumps(value: Any) -> str:
    """Without blanks, letters as they are. Raises TypeError, and RecursionError for what holds itself."""
    return "".join(_encode(value, 0))


def loads(text: str) -> Any:
    """The one value of the text. Raises ValueError, RecursionError."""
    text = text.strip(BLANKS)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # the scanner can say what is wrong only where the package is loaded
        end = -1
    if end == len(text):
        return value
    import json

    return json.loads(text)
