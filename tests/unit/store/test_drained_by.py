"""Rows of nodes from before the user of a drain was recorded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from warpdeck.model import Condition, Node
from warpdeck.model.health import GpuDrain

DRAIN = {"reason": "fan", "drained": True}


@pytest.mark.parametrize(
    ("kind", "old", "user"),
    [
        (Node, {"name": "a", "reason_at_unix": 5.0, **DRAIN}, "reason_user"),
        (Condition, {"node": "a", "at_unix": 5.0, **DRAIN}, "drained_by"),
        (GpuDrain, {"uuid": "GPU-1", "reason": "xid", "at_unix": 5.0}, "user"),
    ],
)
def test_an_old_row_is_read_without_a_user(kind: Any, old: dict[str, Any], user: str) -> None:
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=kind)
    assert (found.reason, getattr(found, user)) == (old["reason"], "")
