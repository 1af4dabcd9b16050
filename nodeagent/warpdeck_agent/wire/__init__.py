"""The protocol between the controller and a node agent, and the framing that the client socket shares.

The messages are in `wire.messages`, which is not imported here: making its dataclasses takes 16 ms, and a verb of the
command line needs the frames only.
"""

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

__all__ = [
    "BINARY",
    "JSON",
    "MAX_FRAME_BYTES",
    "FrameDecoder",
    "WireError",
    "data_frame",
    "json_frame",
    "read_frame",
    "split_data",
]
