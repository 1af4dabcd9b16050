"""The signs the widgets draw with; `signs` turns them into ASCII where the terminal has no more."""

from __future__ import annotations

CURSOR, MARK, ELLIPSIS, UP, DOWN, UNKNOWN = "▌◆…▲▼·"
EIGHTHS = " ▏▎▍▌▋▊▉█"
"""Nothing to a full block, from the left."""
SPARK = " ▁▂▃▄▅▆▇█"
"""The same from below."""
