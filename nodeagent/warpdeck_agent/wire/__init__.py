"""The protocol between the controller and a node agent.

The controller's client socket uses the same framing. This package exports the framing (`json_frame`,
`data_frame`, `FrameDecoder`, `read_frame`). The messages are in `wire.messages`, which is deliberately not
imported here: creating its dataclasses takes 16 ms, and a command-line verb only needs the framing.
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
