"""Errors that nobody expected: bugs of ours, which one request, one job or one node's word has met.

Each costs whoever it was about, and is logged with its traceback; the controller goes on for all others. This is the one place
that says so. Who catches one takes back what was begun, so that nothing half done is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from warpdeck.base.errors import UserError

from .transaction import Transaction

log = logging.getLogger("warpdeck.bugs")
T = TypeVar("T")

RETRY_S = 1.0
"""Before work that goes on for ever is begun anew: a bug that stays must not fill the log."""


def note(doing: str) -> None:
    """Logs the exception that is being handled."""
    log.exception("a bug in %s", doing)


def refusal(doing: str) -> UserError:
    """Logs the exception that is being handled; what the asker is told, of whose request nothing was kept."""
    note(doing)
    return UserError(
        "an error inside the controller: nothing of it was done",
        "an admin finds it in the controller's log: please report it",
    )


async def lasting(work: Callable[[], Awaitable[None]], doing: str) -> None:
    """Work that goes on for ever, begun anew after a bug."""
    while True:
        try:
            await work()
        except Exception:
            note(doing)
        await asyncio.sleep(RETRY_S)


def unless(txn: Transaction, decide: Callable[[], T]) -> T | None:
    """What is decided beside others' events, which do not depend on it; None, and nothing of it, after a bug."""
    mark = txn.mark()
    try:
        return decide()
    except Exception:
        txn.undo(mark)
        note("a decision beside others' events")
        return None
