"""Cache of the answers to the question whether the empty cluster could ever hold a request.

The answer depends only on the nodes and the rules, and takes long to compute on a large cluster. It is
therefore kept for equal requests until the nodes or the rules change.
"""

from __future__ import annotations

from warpdeck.model import Node
from warpdeck.policy import Refusal, Settings

MAX_KEPT = 10_000
"""Maximum number of cached answers. A site has a few hundred kinds of request."""
Answers = dict[tuple[object, ...], Refusal | None]


class AdmissionCache:
    """Cached answers for the present nodes and settings."""

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._settings: Settings | None = None
        self._answers: Answers = {}

    def answers(self, nodes: tuple[Node, ...], settings: Settings) -> Answers:
        """Return the answers kept for these nodes and settings. The table is empty if either has changed.

        The settings object stays the same when only usage is counted again.
        """
        if self._settings is not settings or self._nodes != nodes or len(self._answers) >= MAX_KEPT:
            self._settings, self._nodes, self._answers = settings, nodes, {}
        return self._answers
