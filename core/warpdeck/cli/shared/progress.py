"""Progress on the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def shown_while(line: str) -> Iterator[None]:
    """Show a line on the terminal while the block runs."""
    shown = line if sys.stderr.isatty() else ""
    print(end=shown, file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            os.write(sys.stderr.fileno(), b"\r\x1b[K")  # sys.stderr replaces control characters
