"""How much an agent may say by itself: of each launch that it was sent, and now and then of its node.

An agent that is broken or lies could else keep the controller busy for ever. A sound one never comes near: it starts with far
more than all launches of a node have to tell at once, and earns more with each launch and second than they take. What is an
answer, and what comes on a stream, has limits of its own (see channel) and is not counted here; of a Welcome each launch and step
that it tells of is.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_WORDS = 50_000
"""What may be saved up, and what a new node begins with: ten seconds of the controller's time, at most."""
WORDS_A_SECOND = 200.0
"""Samples, remarks, words on health: a busy node says about ten."""
WORDS_A_LAUNCH = 64
"""Of a launch or a step: running, remarks, the ends of its tasks, exited."""
WORD_BYTES = 1024
"""A longer message counts for so many more: texts are kept in the jobs' histories."""
TREE_BYTES = 64 * 1024
"""As so much counts a question for a launch's code, which makes us send it."""
PAUSE_S = 60.0
"""How long a node is left alone that has said too much: what it earns meanwhile is a quarter of what it had."""


class TokenBucket:
    """Of one node, over all its links."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._words = float(MOST_WORDS)
        self._at = clock()

    def earn(self, launches: int = 1) -> None:
        """It was sent as many launches or steps."""
        self._words = min(self._words + launches * WORDS_A_LAUNCH, MOST_WORDS)

    def spend(self, size_bytes: int, *, words: int = 1) -> bool:
        """It has said something; whether it may. `words`: in one message."""
        now = self._clock()
        earned = (now - self._at) * WORDS_A_SECOND
        self._at = now
        self._words = min(self._words + earned, MOST_WORDS) - words - size_bytes // WORD_BYTES
        return self._words >= 0
