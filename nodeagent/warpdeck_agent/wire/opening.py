"""The messages that open streams of a job on its node: its output, its terminal, a tunnel. See `messages` for how they go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Literal

FELL_BEHIND = "the terminal went on without this viewer"
"""The end of a terminal's stream whose viewer took too little for too long; it may attach again."""


@dataclass(frozen=True)
class OpenLog:
    """Stream a job's output from `offset` (negative: so many bytes before the end). `channel`: out or err."""

    stream: int
    job_id: int
    restarts: int
    channel: str = "out"
    offset: int = 0
    follow: bool = False
    path: str = ""
    """For a job whose spool is gone: the file. The agent refuses a file that is not the user's."""
    uid: int = -1
    t: Literal["open_log"] = "open_log"


@dataclass(frozen=True)
class OpenPty:
    """Attach to an interactive job's terminal: scrollback from `offset` (0: all that is kept), then live bytes.

    Who watches only reads: keys and sizes on this stream count for nothing. `watcher` is named to those who type.
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
    """Bytes both ways to a port of this node's loopback, or, without a port, to a process started inside the job.

    The process runs as the job's user, in its containment and its working folder; the stream is its standard input and
    output. The stream ends with the job.
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
    stream: int
    rows: int
    cols: int
    t: Literal["resize_pty"] = "resize_pty"
