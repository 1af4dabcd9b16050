"""Handlers for the fence of this controller, and for the start that ends it. `base.controller_starts` has the rules."""

from __future__ import annotations

from warpdeck.base.controller_starts import supersedes
from warpdeck.controller.events.events import ClaimEnded, Effect, Fenced, LaunchShare, Outcome, StartBegun
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Link, NodeName

ABSENT = object()


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


def end_claim(txn: Transaction, event: ClaimEnded) -> Outcome:
    """Wait no longer for the first answers of nodes since this start."""
    unclaimed = txn.state.starts.unclaimed
    if event.start != txn.state.starts.own or not unclaimed:
        return Outcome(replan=False)
    unclaimed.clear()
    return Outcome(effects=tuple(_postponed_launches(txn)))


def claim(txn: Transaction, name: NodeName) -> list[Effect]:
    """Note that a node has answered, or cannot be reached. After the last one, the postponed launches are sent."""
    unclaimed = txn.state.starts.unclaimed
    if unclaimed.pop(name, ABSENT) is ABSENT or unclaimed:
        return []
    return _postponed_launches(txn)


def _postponed_launches(txn: Transaction) -> list[Effect]:
    """Return the launches that were not sent while the controller waited for its nodes. Repeating one is harmless."""
    state = txn.state
    if not state.may_start:
        return []
    return [
        LaunchShare(node=share.node, job_id=job_id)
        for job_id in (*state.index.active, *state.index.successor.values())
        for share in state.jobs[job_id].shares
        if share.phase == "launching"
        and not state.jobs[job_id].ending_cause
        and state.node_status.links.get(share.node) is Link.UP
    ]
