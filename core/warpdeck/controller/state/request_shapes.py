"""One object for equal resource requests, because the planner recognizes requests by identity."""

from __future__ import annotations

from warpdeck.model import Resources

MAX_SHAPES = 10_000
"""Different requests that are remembered. A site has a few hundred."""


class RequestShapes:
    """A memo of requests. It is emptied when it is full."""

    def __init__(self) -> None:
        self._shapes: dict[Resources, Resources] = {}

    def one(self, asked: Resources) -> Resources:
        """Return the first object that was equal to `asked`."""
        if len(self._shapes) >= MAX_SHAPES:
            self._shapes.clear()
        return self._shapes.setdefault(asked, asked)
