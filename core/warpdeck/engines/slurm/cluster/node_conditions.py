"""Records when Slurm's nodes were drained, went down, or came back, so that their past can be shown.

Data: the last recorded `Condition` of each node, which the state has from the store after a restart, and the conditions
that are not yet on disk. `next_conditions` decides whether a look at a node gives new ones. It is a pure function.

slurmctld keeps no past states. It tells three times: the one at which a reason was given, for drains and outages; BootTime,
for a reboot that no look has seen; and the start of slurmd, for the return of a node after a reboot. LastBusyTime also
changes when a job ends, so it does not tell when a node was resumed. A time of Slurm counts only if it is later than the
previous look at the node. Otherwise the time of the look is recorded. Times of Slurm have no fractions, so the end of
the second is recorded: a drain is never earlier than its order.

Nothing is recorded while no gateway runs. The first look after a restart finds the difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from warpdeck.controller.state.node_conditions import changed_condition
from warpdeck.controller.state.tables import NodeStatus
from warpdeck.engines.slurm.reading.node_table import is_drained
from warpdeck.model import Condition, NodeName
from warpdeck.ports.store import Changes
from warpdeck.protocol.node_rows import NodeRow

SLURM_SECOND_S = 1.0
LEAST_STEP_S = 0.001
"""Conditions of a node have different times, also if the clock is set back."""
GONE = "Slurm does not report it any more"
REBOOTED = "it was rebooted"
KEEP_GONE_S = 30 * 86_400.0
"""Seconds for which the conditions of a node are kept that Slurm no longer has. A cloud may have new names each day."""
DOWN = "down"
"""The base state of a node that is down. A node that only does not respond at the moment is not down yet: slurmctld shows
each resumed node so until its next ping, and sets it down itself after SlurmdTimeout.
"""


def next_conditions(
    row: NodeRow, flags: frozenset[str], *, before: Condition | None, looked_at: float, now: float
) -> tuple[Condition, ...]:
    """Return the new conditions of a node, in order of time. The last one is valid from now on.

    `looked_at` is the time of the previous look at the node, and `now` that of this one.
    """
    found = _condition(row, flags, before, now=now)
    if before is None:
        return (_dated(found, row, was_down=False, after=-math.inf, now=now),)
    reboot = _missed_reboot(row, found, before, after=looked_at, now=now)
    last = reboot or before
    dated = _dated(found, row, was_down=last.down, after=looked_at, now=now)
    dated = msgspec.structs.replace(dated, at_unix=max(dated.at_unix, last.at_unix + LEAST_STEP_S))
    return tuple(each for each in (reboot, changed_condition(dated, last)) if each is not None)


def _condition(row: NodeRow, flags: frozenset[str], before: Condition | None, *, now: float) -> Condition:
    """Return the condition that a look has found."""
    drained, down, down_reason = is_drained(flags), DOWN in flags, row.reason
    if row.state == "connecting" and before is not None:  # Slurm does not know yet whether the node is up.
        down, down_reason = before.down, before.down_reason
    return Condition(
        node=NodeName(row.name),
        at_unix=now,
        drained=drained,
        reason=row.reason if drained else "",
        drained_by=row.reason_user if drained else "",
        down=down,
        down_reason=down_reason if down else "",
    )


def _missed_reboot(
    row: NodeRow, found: Condition, before: Condition, *, after: float, now: float
) -> Condition | None:
    """Return the outage of a node that was up at the last two looks and was rebooted between them."""
    booted = _slurm_time(row.booted, after=after, now=now)
    if before.down or found.down or booted is None:
        return None
    at = max(booted, before.at_unix + LEAST_STEP_S)
    return msgspec.structs.replace(before, at_unix=at, down=True, down_reason=REBOOTED)


def _dated(found: Condition, row: NodeRow, *, was_down: bool, after: float, now: float) -> Condition:
    """Return the condition with the time that Slurm tells for its begin, or else with the time of the look."""
    told = (
        row.reason_at if found.drained or found.down else None,
        row.agent_start if was_down and not found.down else None,
    )
    times = [at for each in told if (at := _slurm_time(each, after=after, now=now)) is not None]
    return msgspec.structs.replace(found, at_unix=max(times, default=now))


def _slurm_time(told: float | None, *, after: float, now: float) -> float | None:
    """Return the end of this second, but not later than now; None if it is no time between the two looks."""
    if told is None or told > now or told + SLURM_SECOND_S <= after:
        return None
    return min(now, told + SLURM_SECOND_S)


class NodeConditions:
    """Keeps the last condition of each node in `status`, and collects those that are to be written."""

    def __init__(self, status: NodeStatus) -> None:
        self._status = status
        self._unsaved: dict[tuple[NodeName, float], Condition] = {}
        self._forgotten: dict[NodeName, None] = {}
        """Nodes whose conditions are to be deleted."""

    def note(
        self,
        rows: Mapping[NodeName, NodeRow],
        flags: Mapping[NodeName, frozenset[str]],
        *,
        before: Mapping[NodeName, NodeRow],
        now: float,
    ) -> None:
        """Compare nodes with their last conditions. `before` has the rows of the previous look."""
        last = self._status.conditions
        for name, row in rows.items():
            known, previous = last.get(name), before.get(name)
            seen = previous.at if previous is not None else known.at_unix if known is not None else None
            found = next_conditions(
                row,
                flags.get(name, frozenset()),
                before=known,
                looked_at=-math.inf if seen is None else seen,
                now=now if row.at is None else row.at,
            )
            for each in found:
                self._put(each)

    def note_gone(self, known: Iterable[NodeName], *, now: float) -> None:
        """Record which nodes Slurm no longer has, and forget those that it has not had for long."""
        last, present = self._status.conditions, frozenset(known)
        for name in [name for name in last if name not in present]:
            found = last[name]
            if not found.down or found.down_reason != GONE:
                self._put(Condition(node=name, at_unix=now, down=True, down_reason=GONE))
            elif now - found.at_unix > KEEP_GONE_S:
                del last[name]
                self._forgotten[name] = None

    def _put(self, found: Condition) -> None:
        self._status.conditions[found.node] = found
        self._unsaved[found.node, found.at_unix] = found

    @property
    def is_unsaved(self) -> bool:
        return bool(self._unsaved or self._forgotten)

    def unsaved(self) -> tuple[Condition, ...]:
        """Return the conditions that are not yet on disk, in order of time for each node."""
        return tuple(self._unsaved.values())

    def forgotten(self) -> tuple[NodeName, ...]:
        """Return the nodes that no longer exist. The store deletes their conditions."""
        return tuple(self._forgotten)

    def saved(self, changes: Changes) -> None:
        """Note that these changes are on disk. Conditions may have been added meanwhile."""
        for each in changes.conditions:
            if self._unsaved.get((each.node, each.at_unix)) is each:
                del self._unsaved[each.node, each.at_unix]
        for name in changes.gone_nodes:
            self._forgotten.pop(name, None)
