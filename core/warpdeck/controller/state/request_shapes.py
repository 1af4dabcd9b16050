"""Keeps one object for equal resource requests, because the planner compares requests by identity."""

from __future__ import annotations

from warpdeck.model import Resources

MAX_SHAPES = 10_000
"""Maximum number of different requests that are remembered. A site has a few hundred."""


class RequestShapes:
    """Table of the distinct requests. It is emptied when it is full."""

    def __init__(self) -> None:
        self._shapes: dict[Resources, Resources] = {}

    def one(self, asked: Resources) -> Resources:
        """Return the first object seen that is equal to `asked`."""
        if len(self._shapes) >= MAX_SHAPES:
            self._shapes.clear()
        return self._shapes.setdefault(asked, asked)
