"""What an agent says, decoded by msgspec: ten times as fast as the agent's own decoder, which has only the standard library.

A thousand nodes that each send a sample a second would else take a sixth of a core.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from warpdeck_agent.wire import messages
from warpdeck_agent.wire.frames import parse_json


class _Tagged(msgspec.Struct):
    t: str


_TAG = msgspec.json.Decoder(_Tagged)
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__dataclass_fields__["t"].default: msgspec.json.Decoder(kind)
    for kind in get_args(messages.AgentMessage)
}


def decode(payload: bytes) -> Any:
    """The message of a J frame. Raises WireError for what is none."""
    try:
        return _DECODERS[_TAG.decode(payload).t].decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        # A file name that is not UTF-8 comes with surrogates, which msgspec refuses; and the errors are told there.
        return messages.decode(parse_json(payload))
