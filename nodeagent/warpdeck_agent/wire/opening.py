"""The messages that open a stream of a job on its node: its output, its terminal, or a tunnel.

`messages` describes the rest of the stream protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Literal

FELL_BEHIND = "fell_behind"
"""Code with which a terminal stream ends if its viewer read too slowly for too long. The viewer may attach
again.
"""
NOT_KEPT = "not_kept"
"""Code with which a log stream ends if the node has no output of the job, and will never have any."""


@dataclass(frozen=True)
class OpenLog:
    """Stream a job's output from `offset`; a negative offset counts bytes from the end.

    `channel` is "out" or "err".
    """

    stream: int
    job_id: int
    restarts: int
    channel: str = "out"
    offset: int = 0
    follow: bool = False
    path: str = ""
    """The output file of a job without a spool. The agent refuses a file that does not belong to the user
    `uid`.
    """
    uid: int = -1
    t: Literal["open_log"] = "open_log"


@dataclass(frozen=True)
class OpenPty:
    """Attach to an interactive job's terminal.

    The stream has the scrollback from `offset` (0: all that is kept), then live bytes. With `watch`, the
    viewer is read-only: its keys and sizes on this stream are ignored. `watcher` is the name of the viewer
    that is shown to the users who type.
    """

    stream: int
    job_id: int
    restarts: int
    rows: int
    cols: int
    offset: int = 0
    watch: bool = False
    watcher: str = ""
    t: Literal["open_pty"] = "open_pty"


@dataclass(frozen=True)
class OpenTunnel:
    """Open a tunnel to a port of this node's loopback interface.

    Without a port, the tunnel leads to a process that is started inside the job. The process runs as the
    job's user, in its containment and its working folder. The stream is its standard input and output. The
    stream ends with the job.
    """

    stream: int
    job_id: int
    restarts: int
    port: int = 0
    argv: List[str] = field(default_factory=list)
    env: Dict[str, str] = field(default_factory=dict)
    """The environment of the job's processes on this node, as in Launch."""
    t: Literal["open_tunnel"] = "open_tunnel"


@dataclass(frozen=True)
class ResizePty:
    """Set the size of a viewer of a terminal."""

    stream: int
    rows: int
    cols: int
    t: Literal["resize_pty"] = "resize_pty"
