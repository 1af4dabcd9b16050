"""Measure the named parts and print a table: `python -m tests.bench [PART ...]`.

Without names it measures all parts, in about six minutes.
"""

from __future__ import annotations

import sys

from . import (
    backup,
    calls,
    commands,
    cycle,
    fleet,
    footprint,
    history,
    hostile,
    jobs,
    over_slurm,
    peers,
    planning,
    remote,
    screen,
    standby,
    trees,
    verdict,
)
from .rig import open_rig
from .table import Table

PARTS = (
    "commands",
    "screen",
    "verdict",
    "idle",
    "jobs",
    "calls",
    "remote",
    "standby",
    "trees",
    "planning",
    "restart",
    "history",
    "backup",
    "fleet",
    "hostile",
    "over_slurm",
)


def main(words: list[str]) -> int:
    """Measure the named parts."""
    wanted = words or list(PARTS)
    unknown = [word for word in wanted if word not in PARTS]
    if unknown:
        print(f"Unknown part {unknown[0]}. The parts are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    table = Table(slurm=peers.slurm(), hyperqueue=peers.hyperqueue())
    table.head()
    with_rig(table, wanted)
    if "verdict" in wanted:
        verdict.measure(table)
    if "remote" in wanted:
        remote.measure(table)
    if "standby" in wanted:
        standby.measure(table)
    if "trees" in wanted:
        trees.measure(table)
    if "planning" in wanted:
        planning.measure(table)
        cycle.measure(table)
    if "fleet" in wanted:
        fleet.measure(table)
    if "hostile" in wanted:
        hostile.measure(table)
    if "over_slurm" in wanted:
        over_slurm.measure(table)
    table.foot()
    return 0


def with_rig(table: Table, wanted: list[str]) -> None:
    """Measure the parts that need a controller, from an empty queue to a full one."""
    if not {"commands", "screen", "idle", "jobs", "calls", "restart", "history", "backup"} & set(wanted):
        return
    with open_rig() as rig:
        if "commands" in wanted:
            commands.measure_start(table, rig)
        if "screen" in wanted:
            screen.measure(table, rig)
        if "idle" in wanted:
            footprint.measure_idle(table, rig)
            footprint.measure_supervisor(table, rig)
        if "jobs" in wanted:
            jobs.measure(table, rig)
        if "calls" in wanted:
            calls.measure(table, rig)
        if "commands" in wanted and "jobs" in wanted:
            commands.measure_full_queue(table, rig)
    if "restart" in wanted:
        with open_rig() as rig:
            footprint.measure_restart(table, rig)
    if "history" in wanted:
        with open_rig() as rig:
            history.measure(table, rig)
    if "backup" in wanted:
        with open_rig() as rig:
            backup.measure(table, rig)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
