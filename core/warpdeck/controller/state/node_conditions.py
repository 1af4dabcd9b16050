"""When a node became drained, down or well again: what is written down of it, so that it can be told of a moment in the past.

A controller that does not run writes nothing: a node is taken to have stayed as it was, until it is found to be otherwise.
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
    """The condition that the node is in from now on; None where it is the last one that was written down.

    Of one that only says in other words why the node does not answer, the beginning stays: it takes the place of the last one.
    """
    waits = link is Link.CONNECTING and before is not None
    down = before.down if waits and before is not None else link is Link.LOST
    words = before.down_reason if waits and before is not None else link_reason.partition(NEXT_ATTEMPT)[0]
    found = Condition(
        node=node.name,
        at_unix=now,
        drained=node.drained,
        reason=node.reason if node.drained else "",
        down=down,
        down_reason=words if down else "",
        gpu_drains=node.gpu_drains,
    )
    if before is None:
        return found
    if msgspec.structs.replace(found, at_unix=before.at_unix, down_reason=before.down_reason) != before:
        return found
    if not says_other(found.down_reason, before.down_reason):
        return None
    return msgspec.structs.replace(found, at_unix=before.at_unix)


def says_other(reason: str, before: str) -> bool:
    """A new figure is no other reason, and is not written down."""
    return _FIGURES.sub("", reason) != _FIGURES.sub("", before)
