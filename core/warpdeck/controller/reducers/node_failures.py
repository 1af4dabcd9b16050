"""When a job's end or refusal is its node's fault: the node takes no more jobs, and the job may try elsewhere."""

from __future__ import annotations

import logging

from warpdeck.controller.state.state import amend
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import NodeName

log = logging.getLogger("warpdeck.nodes")


def blame(txn: Transaction, name: NodeName, reason: str) -> None:
    """Drains the node until an admin resumes it. One that is drained for good keeps its first reason."""
    node = txn.state.nodes.get(name)
    if not reason or node is None or (node.drained and not node.drain_checks):
        return
    log.warning("%s is drained: %s", name, reason)
    txn.put_node(amend(node, drained=True, drain_checks=(), reason=reason, reason_at_unix=txn.now))


def blame_check(txn: Transaction, name: NodeName, check: str, *, reason: str) -> bool:
    """Drains the node until that check is well again; False where the site wants no drain for it."""
    node = txn.state.nodes.get(name)
    if node is None or not check or check in txn.state.site.health.ignore:
        return False
    if check not in node.drain_checks and (node.drain_checks or not node.drained):
        log.warning("%s is drained: %s", name, reason)
        checks = tuple(sorted({*node.drain_checks, check}))
        txn.put_node(amend(node, drained=True, drain_checks=checks, reason=reason, reason_at_unix=txn.now))
    return True
