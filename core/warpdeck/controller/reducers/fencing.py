"""Handlers for the fence of this controller, and for the start that ends it. `base.controller_starts` has the rules."""

from __future__ import annotations

from warpdeck.base.controller_starts import supersedes
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Fenced, StartBegun
from warpdeck.controller.state.transaction import Transaction


def fence(txn: Transaction, event: Fenced) -> Outcome:
    """Fence the controller. Of several starts that fence it, the one with the highest epoch is recorded."""
    known = txn.state.starts.fenced_by
    if supersedes(event.holder, txn.state.starts.own) and (known is None or event.holder.epoch > known.epoch):
        txn.put_fence(event.holder)
    return Outcome(replan=False)


def begin_start(txn: Transaction, event: StartBegun) -> Outcome:
    """Begin a new start, which ends the fence."""
    txn.put_start(event.start)
    return Outcome()
