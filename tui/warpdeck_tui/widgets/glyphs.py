"""The signs the widgets draw with, in Unicode and in plain ASCII for fonts and terminals that have no more."""

from __future__ import annotations

from typing import NamedTuple


class Glyphs(NamedTuple):
    """`eighths`: nothing to a full block, from the left; `spark`: the same from below."""

    cursor: str
    mark: str
    ellipsis: str
    up: str
    down: str
    unknown: str
    eighths: str
    spark: str


UNICODE = Glyphs("▌", "◆", "…", "▲", "▼", "·", " ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█")
ASCII = Glyphs(">", "*", "~", "^", "v", ".", "  ..-==##", " ._-=+*%#")
