"""Apply one event so that its failure affects neither the transaction nor the other events in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from warpdeck.base.errors import InvalidTransition, UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event
from warpdeck.controller.reducers.reduce import reduce
from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.transaction import Transaction

from .event_queue import refuse

log = logging.getLogger("warpdeck.controller")


def guarded_reduce(
    txn: Transaction,
    event: Event,
    answer: asyncio.Future[Outcome] | None = None,
    *,
    on_bug: Callable[[Event], None] | None = None,
) -> Outcome | None:
    """Apply the event within the transaction and return its outcome.

    If the event is refused or causes an unexpected error, undo its changes, raise the error in the caller
    that waits for the answer, and return None. After an unexpected error, call `on_bug` as well.
    """
    savepoint = txn.savepoint()
    try:
        return reduce(txn, event)
    except (UserError, InvalidTransition) as error:
        txn.rollback(savepoint)
        if answer is None:
            log.warning("%s refused: %s", type(event).__name__, error)
        refuse(answer, error)
    except Exception:
        txn.rollback(savepoint)
        refuse(answer, bug_reports.refusal(type(event).__name__))
        if on_bug is not None:
            on_bug(event)
    return None
