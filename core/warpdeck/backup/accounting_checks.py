"""Check that the usage that was charged equals the run times of the ended jobs.

`RunTimes` adds the decayed run time of every ended start by account, user and QoS, as the controller does when a job
ends. The usage factors and the half-life are those of the configuration beside the database. A change of them in the
past, or jobs that are no longer in the database, make the sums differ, so the sentence names these causes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from warpdeck.config import Site
from warpdeck.controller.state.accounting import Key, key_of
from warpdeck.model import Job
from warpdeck.policy import WALL, decayed_seconds
from warpdeck.ports.store import UsageRecord
from warpdeck.store.salvage import Salvage

from .problem import NOTHING, Problem

SLACK_S, SLACK = 1.0, 1e-3
"""Differences below one second, or one part in a thousand, are not reported. Clocks of nodes differ a little."""
_USAGE = msgspec.msgpack.Decoder(UsageRecord)


class RunTimes:
    """Run times of ended starts, decayed to the times of the charged totals."""

    def __init__(self, db: sqlite3.Connection, site: Site) -> None:
        self._half_life_s = site.half_life_s or 0.0
        self._factors = {each.name: each.usage_factor for each in site.qos}
        rows = Salvage().read(db, "usage", _USAGE)
        self._charged: dict[Key, UsageRecord] = {row.key: row for row in rows}
        self._run_s: dict[Key, float] = {}
        self.is_complete = True
        """False if earlier starts of jobs are not in the database, so that only too little usage is a problem."""

    def add(self, job: Job) -> None:
        """Add one start of a job, if it has ended."""
        if (
            job.start_at_unix is None
            or job.end_at_unix is None
            or job.allocation is None
            or job.holds_resources
        ):
            return
        key = key_of(job)
        charged = self._charged.get(key)
        seconds = decayed_seconds(
            job.start_at_unix + job.suspended_s,
            job.end_at_unix,
            now=job.end_at_unix if charged is None else charged.at_unix,
            half_life_s=self._half_life_s,
        )
        self._run_s[key] = self._run_s.get(key, 0.0) + seconds * self._factors.get(job.request.qos, 1.0)

    def problems(self) -> Iterator[Problem]:
        """Yield the totals that differ from the run times."""
        for key in sorted({*self._charged, *self._run_s} if self.is_complete else self._charged):
            tres = self._charged[key].tres if key in self._charged else {WALL: 0.0}
            if WALL not in tres:
                continue  # the total was written before run times were charged
            charged, expected = tres[WALL], self._run_s.get(key, 0.0)
            slack = SLACK_S + SLACK * max(charged, expected)
            if expected - charged > slack or (self.is_complete and charged - expected > slack):
                yield Problem(
                    table="usage",
                    key=" ".join(each or "-" for each in key),
                    problem=f"{charged:.1f} s are charged, but its jobs ran {expected:.1f} s (decayed); a change of "
                    "half_life or usage_factor in the past also has this effect",
                    salvage=NOTHING,
                )
