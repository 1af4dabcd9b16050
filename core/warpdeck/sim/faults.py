"""Faults of a simulated cluster: their probabilities.

Each fault is drawn from the cluster's generator, so a seed gives the same faults again.
"""

from __future__ import annotations


class Faults:
    """The probabilities of faults.

    `refuse` and `fail` concern a launch. `lose`, `double` and `delay` concern a message between controller and
    agent; a lost message takes its connection with it. `crash` concerns a commit: the controller dies before or
    after it. `full` and `slow` concern the disk.
    """

    def __init__(
        self,
        *,
        refuse: float = 0.05,
        fail: float = 0.1,
        lose: float = 0.0,
        double: float = 0.0,
        delay: float = 0.0,
        crash: float = 0.0,
        full: float = 0.0,
        slow: float = 0.0,
    ) -> None:
        self.refuse = refuse
        self.fail = fail
        self.lose = lose
        self.double = double
        self.delay = delay
        self.crash = crash
        self.full = full
        self.slow = slow


HARSH = Faults(lose=0.03, double=0.05, delay=0.05, crash=0.02, full=0.02, slow=0.1)
"""All kinds of faults, each so rare that most jobs still run to their end."""
MOST_DELAY_S = 30.0
"""Largest delay of a message, and of a slow write."""
