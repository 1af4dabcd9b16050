"""Record the times at which a node became drained, down or healthy, so that its past condition can be shown.

Nothing is recorded while the controller is not running. A node counts as unchanged until a change is found.
"""

from __future__ import annotations

import re

import msgspec

from warpdeck.model import Condition, Link, Node
from warpdeck.ports.ports import NEXT_ATTEMPT

_FIGURES = re.compile(r"\d+")


def next_condition(
    node: Node, *, link: Link, link_reason: str, before: Condition | None, now: float
) -> Condition | None:
    """Return the condition of the node from now on; None if it equals the last recorded condition."""
    waits = link is Link.CONNECTING and before is not None
    down = before.down if waits and before is not None else link is Link.LOST
    link_text = before.down_reason if waits and before is not None else link_reason.partition(NEXT_ATTEMPT)[0]
    found = Condition(
        node=node.name,
        at_unix=now,
        drained=node.drained,
        reason=node.reason if node.drained else "",
        drained_by=node.reason_user if node.drained else "",
        down=down,
        down_reason=link_text if down else "",
        gpu_drains=node.gpu_drains,
    )
    return changed_condition(found, before)


def changed_condition(found: Condition, before: Condition | None) -> Condition | None:
    """Return the condition to record; None if it equals the last recorded condition.

    If only the reason why the node is down changes, the new condition keeps the old start time and replaces the last record.
    """
    if before is None:
        return found
    if msgspec.structs.replace(found, at_unix=before.at_unix, down_reason=before.down_reason) != before:
        return found
    if not differs_in_words(found.down_reason, before.down_reason):
        return None
    return msgspec.structs.replace(found, at_unix=before.at_unix)


def differs_in_words(reason: str, before: str) -> bool:
    """Return whether two reasons differ in more than their numbers.

    If only numbers change, the change is not recorded.
    """
    return _FIGURES.sub("", reason) != _FIGURES.sub("", before)
