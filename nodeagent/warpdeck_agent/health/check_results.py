"""The last results of a group of health checks."""

from __future__ import annotations

from typing import Any, List, Sequence

from warpdeck_agent.wire.messages import Check


class CheckResults:
    """The last result of each check in a group. A check may have one result for each GPU."""

    def __init__(self) -> None:
        self.checks: Sequence[Check] = ()

    def replace(self, checks: List[Check]) -> bool:
        """Set new results. Returns whether they differ from the old ones in more than their messages.

        A message may contain a value that changes all the time, such as the number of free bytes.
        """
        before, self.checks = self.checks, checks
        return _states(before) != _states(checks)


def _states(checks: Sequence[Check]) -> List[Any]:
    return [(check.name, check.state, check.uuid) for check in checks]
