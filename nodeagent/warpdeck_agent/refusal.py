"""A launch that cannot be."""

from __future__ import annotations


class LaunchError(Exception):
    """In one sentence. `again`: the node is to blame, not the job; `drain`: why the node should take no more jobs."""

    def __init__(self, message: str, *, again: bool = False, drain: str = "") -> None:
        super().__init__(message)
        self.again = again
        self.drain = drain
