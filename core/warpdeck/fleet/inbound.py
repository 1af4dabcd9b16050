"""What an agent says, decoded by msgspec: ten times as fast as the agent's own decoder, which has only the standard library.

A thousand nodes that each send a sample a second would else take a sixth of a core.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from warpdeck_agent.wire import messages
from warpdeck_agent.wire.frames import parse_json
from warpdeck_agent.wire.jsontext import dumps


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
        # What users call files, and what their programs say, need not be UTF-8 and comes with surrogates, which msgspec refuses,
        # and so would the store. The errors are told there, too.
        readable = dumps(parse_json(payload)).encode("utf-8", "replace")
        return messages.decode(parse_json(readable))
