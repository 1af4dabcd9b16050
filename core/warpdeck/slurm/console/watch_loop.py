"""Print a listing once, or repeatedly at an interval (--iterate)."""

from __future__ import annotations

import time
from collections.abc import Callable

from warpdeck.client.blocking_client import SyncClient

from .command_options import WordsError
from .console import Console


def pause_s(text: str | None, complaint: str) -> float | None:
    """Return the interval of --iterate in seconds, or None without the option.

    Raises WordsError with `complaint` if it is invalid.
    """
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        raise WordsError(complaint)
    return float(text)


def iterate(console: Console, every_s: float | None, show: Callable[[SyncClient], None]) -> None:
    """Print the listing once, and again every `every_s` seconds if given."""
    with console.controller.connect() as client:
        show(client)
        while every_s is not None:
            console.streams.out.flush()
            console.controller.mark_idle()
            time.sleep(every_s)
            show(client)
