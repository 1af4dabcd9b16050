"""The messages of a simulated link. Each is encoded by the code of its sender and decoded by that of its receiver."""

from __future__ import annotations

from typing import Any

from warpdeck.fleet import inbound
from warpdeck_agent.wire.fields import limit_sizes
from warpdeck_agent.wire.frames import HEADER_BYTES, json_frame, parse_json
from warpdeck_agent.wire.messages import decode, encode


def at_controller(message: Any) -> Any:
    """Return an agent's message as the controller gets it."""
    return inbound.decode(json_frame(limit_sizes(encode(message)))[HEADER_BYTES:])


def at_agent(message: Any) -> Any:
    """Return a controller's message as an agent gets it."""
    return decode(parse_json(json_frame(encode(message))[HEADER_BYTES:]))
