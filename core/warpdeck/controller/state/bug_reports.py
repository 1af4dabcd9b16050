"""Handle unexpected errors, which are bugs in warpdeck.

An unexpected error affects only the request, job or node message that triggered it. It is logged with its
traceback, and the controller continues with everything else. All unexpected errors are reported through this
module. The code that catches an error must roll back its own changes, so that no partial change is kept.
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
"""Delay in seconds before a permanent task is restarted. It keeps a recurring bug from filling the log."""


def report_bug(activity: str) -> None:
    """Log the exception that is being handled."""
    log.exception("a bug in %s", activity)


def report_violation(violation: str) -> None:
    """Log a violated invariant of the state. No exception is being handled."""
    log.error("a bug in the state: %s", violation)


def refusal(activity: str) -> UserError:
    """Log the exception that is being handled, and return an error for the caller.

    The caller's request had no effect.
    """
    report_bug(activity)
    return UserError(
        "an error inside the controller: nothing was changed",
        "please report it; admins find the details in the controller's log",
    )


async def supervised_task(work: Callable[[], Awaitable[None]], activity: str) -> None:
    """Run permanent work, and restart it after a bug."""
    while True:
        try:
            await work()
        except Exception:
            report_bug(activity)
        await asyncio.sleep(RETRY_S)


def rollback_on_bug(txn: Transaction, decide: Callable[[], T]) -> T | None:
    """Return the result of a decision that is made in the same transaction as unrelated events.

    After an unexpected error, roll back the decision's changes and return None, because the other events do
    not depend on the decision.
    """
    savepoint = txn.savepoint()
    try:
        return decide()
    except Exception:
        txn.rollback(savepoint)
        report_bug("a decision beside others' events")
        return None
