"""The table of a what-if: the waiting times of users and accounts, now and under the other policy."""

from __future__ import annotations

import msgspec

from warpdeck.notation.values.durations import format_duration
from warpdeck_tui.viewmodels.cells import Cell, Line
from warpdeck_tui.widgets.columns import Column

COLUMNS = (
    Column("USER OR ACCOUNT", 16, flex=1, most=28),
    Column("JOBS", 7, align="right"),
    Column("ACTUAL", 10, 2, align="right"),
    Column("BASELINE", 10, align="right"),
    Column("NEW", 10, align="right"),
    Column("CHANGE", 11, align="right"),
    Column("SHORTER", 7, 2, align="right"),
    Column("LONGER", 7, 2, align="right"),
)
EXAMPLE = "--add-gpus 8"
MEANING = "Mean wait times. ACTUAL was recorded; BASELINE and NEW are simulated"


class WaitChange(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on one user or account: mean waiting times in seconds (see sim.history.Change)."""

    name: str
    jobs: int
    really_waited_s: float
    now_waits_s: float
    then_waits_s: float
    difference_s: float
    shorter: int
    longer: int


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the replay.

    Users and accounts are sorted so that the largest loss comes first. `not_started` counts the jobs that
    cannot run on today's nodes under one of the two policies.
    """

    jobs: int
    not_started: int
    users: list[WaitChange]
    accounts: list[WaitChange]


def what_if_rows(found: WhatIf | None) -> list[tuple[str, Line]]:
    """Return the rows, accounts before users, each with the largest loss first."""
    if found is None:
        return []
    groups = (("account ", found.accounts), ("user ", found.users))
    return [(f"{kind}{change.name}", _line(kind, change)) for kind, changes in groups for change in changes]


def what_if_words(found: WhatIf) -> str:
    """Return a summary in one sentence."""
    jobs = sum(change.jobs for change in found.users)
    mean_s = sum(change.jobs * change.difference_s for change in found.users) / max(1, jobs)
    now_s = sum(change.jobs * change.now_waits_s for change in found.users) / max(1, jobs)
    way = "longer" if mean_s > 0 else "shorter"
    left = f"; {found.not_started:,} cannot start on the current nodes" if found.not_started else ""
    change = f"no change: mean wait stays {format_duration(now_s)}"
    if round(mean_s):
        change = f"mean wait {format_duration(abs(mean_s))} {way}"
    return f"{found.jobs:,} jobs: {change}{left}"


def _line(kind: str, change: WaitChange) -> Line:
    sign = "-" if change.difference_s < 0 else "+"
    better = change.difference_s < 0
    same = not round(change.difference_s)
    return (
        Cell(f"{kind}{change.name}", "accent"),
        Cell(f"{change.jobs:,}"),
        Cell(format_duration(change.really_waited_s), "muted"),
        Cell(format_duration(change.now_waits_s)),
        Cell(format_duration(change.then_waits_s)),
        Cell(
            "same" if same else sign + format_duration(abs(change.difference_s)),
            "muted" if same else "RUNNING" if better else "warn",
        ),
        Cell(f"{change.shorter:,}", "muted"),
        Cell(f"{change.longer:,}", "muted"),
    )
