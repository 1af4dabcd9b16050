"""The symbols that the widgets draw. `signs` replaces them by ASCII if the terminal supports nothing else."""

from __future__ import annotations

CURSOR, MARK, ELLIPSIS, UP, DOWN, UNKNOWN = "▌◆…▲▼·"
EIGHTHS = " ▏▎▍▌▋▊▉█"
"""Blocks from empty to full, growing from the left."""
SPARK = " ▁▂▃▄▅▆▇█"
"""Blocks from empty to full, growing from below."""
THICK, THICK_HALF, THIN = "━╸─"
"""Parts of a thin bar: filled, half filled, and empty."""
