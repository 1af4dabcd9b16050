"""A listing once, or every so many seconds for ever (--iterate)."""

from __future__ import annotations

import time
from collections.abc import Callable

from warpdeck.client.blocking_client import SyncClient

from .arguments import WordsError
from .console import Console


def pause_s(text: str | None, complaint: str) -> float | None:
    """The seconds of --iterate; None without it. Raises WordsError with the complaint for what are none."""
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        raise WordsError(complaint)
    return float(text)


def iterate(console: Console, every_s: float | None, show: Callable[[SyncClient], None]) -> None:
    """Shows it, again and again where that was asked for."""
    with console.connect() as client:
        show(client)
        while every_s is not None:
            console.out.flush()
            console.linger()
            time.sleep(every_s)
            show(client)
