"""Limit the rate of messages that an agent sends on its own, such as reports on launches and on its node.

A faulty or malicious agent could otherwise keep the controller busy forever. A correct agent never comes near
the limit. It starts with far more credit than all launches of a node need at once, and its credit grows
faster than launches and time require. Answers and stream data have separate limits (see channel) and are not
counted here. In a Welcome message, each reported launch and step counts as one message.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_MESSAGES = 50_000
"""Maximum saved credit in messages, which is also a new node's initial credit.

The controller processes this many messages in at most ten seconds.
"""
MESSAGES_PER_SECOND = 200.0
"""Credit in messages per second for samples, warnings and health reports. A busy node sends about ten."""
MESSAGES_PER_LAUNCH = 64
"""Credit in messages per launch or step: running, warnings, the ends of its tasks, exited."""
MESSAGE_BYTES = 1024
"""A message counts as one more message for each full block of this many bytes.

Long messages cost more because texts are kept in the jobs' histories.
"""
TREE_BYTES = 64 * 1024
"""Cost in bytes of a request for a launch's code: we answer it by sending the tree."""
PAUSE_S = 60.0
"""Seconds for which a node that exceeded its credit stays disconnected.

It earns a quarter of the maximum in that time.
"""


class TokenBucket:
    """Message credit of one node, over all its links."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._messages = float(MAX_MESSAGES)
        self._updated_at = clock()

    def earn(self, launches: int = 1) -> None:
        """Add the credit for launches or steps that were sent to the node."""
        self._messages = min(self._messages + launches * MESSAGES_PER_LAUNCH, MAX_MESSAGES)

    def spend(self, size_bytes: int, *, messages: int = 1) -> bool:
        """Charge a message, and return whether the node's credit covers it.

        `messages` is the number of reports in the message.
        """
        now = self._clock()
        earned = (now - self._updated_at) * MESSAGES_PER_SECOND
        self._updated_at = now
        self._messages = min(self._messages + earned, MAX_MESSAGES) - messages - size_bytes // MESSAGE_BYTES
        return self._messages >= 0
