"""Drain a node that caused the end or the refusal of a job, so that the job may run on another node."""

from __future__ import annotations

import logging

from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import NodeName

log = logging.getLogger("warpdeck.nodes")


def drain_permanently(txn: Transaction, name: NodeName, reason: str) -> None:
    """Drain the node until an administrator resumes it.

    If the node is already drained until then, it keeps its first reason.
    """
    node = txn.state.nodes.get(name)
    if not reason or node is None or (node.drained and not node.drain_checks):
        return
    log.warning("%s is drained: %s", name, reason)
    txn.put_node(
        replace(node, drained=True, drain_checks=(), reason=reason, reason_at_unix=txn.now, reason_user="")
    )


def drain_until_passed(txn: Transaction, name: NodeName, check: str, *, reason: str) -> bool:
    """Drain the node until the check succeeds again.

    Returns False if the site's settings ignore this check.
    """
    node = txn.state.nodes.get(name)
    if node is None or not check or check in txn.state.site.health.ignore:
        return False
    if check not in node.drain_checks and (node.drain_checks or not node.drained):
        log.warning("%s is drained: %s", name, reason)
        checks = tuple(sorted({*node.drain_checks, check}))
        txn.put_node(
            replace(
                node, drained=True, drain_checks=checks, reason=reason, reason_at_unix=txn.now, reason_user=""
            )
        )
    return True
