"""The protocol between the controller and a node agent, and the framing that the client socket shares."""

from .frames import (
    BINARY,
    JSON,
    MAX_FRAME_BYTES,
    FrameDecoder,
    WireError,
    data_frame,
    json_frame,
    read_frame,
    split_data,
)
from .messages import (
    PROTOCOL_VERSION,
    AgentMessage,
    ControllerMessage,
    decode,
    encode,
)

__all__ = [
    "BINARY",
    "JSON",
    "MAX_FRAME_BYTES",
    "PROTOCOL_VERSION",
    "AgentMessage",
    "ControllerMessage",
    "FrameDecoder",
    "WireError",
    "data_frame",
    "decode",
    "encode",
    "json_frame",
    "read_frame",
    "split_data",
]
