"""Frequency of end reports: each report waits for the disk and costs the controller a transaction."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually_async

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.notices import Notices
from warpdeck_agent.registry.ending import Ending
from warpdeck_agent.storage.spool import Meta, Spool
from warpdeck_agent.users.user_children import UserChildren

TASKS = 200


class CountedClearing:
    """A stand-in for the teardown that finds leftovers only of the given launches.

    The launches in `followed` have successors. `settled` holds the number of ends in each report.
    """

    def __init__(self, *leftovers: int, followed: tuple[int, ...] = ()) -> None:
        self.leftovers = leftovers
        self.followed = followed
        self.looked_at: list[int] = []
        self.settled: list[int] = []

    def is_over(self, job: LocalLaunch) -> bool:
        self.looked_at.append(job.meta.job_id)
        job.has_successor = job.meta.job_id in self.followed
        return job.meta.job_id not in self.leftovers

    def tidy(self) -> None:
        """Do nothing."""

    async def settle(self, over: list[LocalLaunch], others: list[LocalLaunch]) -> list[LocalLaunch]:
        self.settled.append(len(over + others))
        return []


def launch(spool: Spool, number: int) -> LocalLaunch:
    folder = spool.launch_folder(number, 0)
    folder.create(uid=0, gid=0, terminal=False)
    plain: dict[str, Any] = {
        "role": "batch",
        "user": "root",
        "uid": 0,
        "started_at": 0.0,
        "time_limit_s": None,
    }
    files: dict[str, Any] = {"grace_s": 0.0, "stdout": "", "stderr": "", "work_dir": "/", "pty": False}
    return LocalLaunch(folder, Meta(job_id=number, restarts=0, **plain, **files), agent=spool.identity)


def ending_of(
    pool: ThreadPoolExecutor, clearing: CountedClearing, reported: list[Any], **options: float
) -> Ending:
    notices = Notices(UserChildren(pool), pool)
    return Ending(
        pool,
        clearing,  # type: ignore[arg-type]
        reported.append,
        notices=notices,
        on_free=lambda job: None,
        **options,
    )


async def test_ends_in_quick_succession_are_reported_together(
    tmp_path: Path,
) -> None:
    spool, clearing, reported = Spool(str(tmp_path)), CountedClearing(), list[Any]()
    with ThreadPoolExecutor(1) as pool:
        ending = ending_of(pool, clearing, reported)
        jobs = [launch(spool, number) for number in range(1, TASKS + 1)]
        for count, job in enumerate(jobs, 1):
            ending.ended(job)
            assert clearing.looked_at[-1] == count, "the slot is free before the report"
            await asyncio.sleep(0)
        await eventually_async(lambda: len(reported) == TASKS, what="all ends are reported")
    assert sum(clearing.settled) == TASKS
    assert clearing.settled[0] < 10, "the first end after a pause is reported at once"
    assert len(clearing.settled) < TASKS / 4


async def test_an_end_that_holds_its_slot_is_reported_at_once(tmp_path: Path) -> None:
    spool, clearing, reported = Spool(str(tmp_path)), CountedClearing(3), list[Any]()
    with ThreadPoolExecutor(1) as pool:
        ending = ending_of(pool, clearing, reported, gather_s=1e6)
        ending.ended(launch(spool, 1))
        await eventually_async(lambda: len(reported) == 1, what="the first end after a pause is reported")
        ending.ended(launch(spool, 2))
        await asyncio.sleep(0)
        assert len(reported) == 1, "the second end waits for further ends"
        ending.ended(launch(spool, 3))
        await eventually_async(
            lambda: len(reported) == 3, what="the third end is reported at once, together with the second"
        )
    assert clearing.settled == [1, 2]


async def test_ends_with_a_started_successor_are_reported_later(tmp_path: Path) -> None:
    spool, clearing, reported = Spool(str(tmp_path)), CountedClearing(followed=(1, 2)), list[Any]()
    with ThreadPoolExecutor(1) as pool:
        ending = ending_of(
            pool, clearing, reported, gather_s=2 * time.monotonic()
        )  # the last report was that long ago: due for launches without a successor, not yet for the others
        for number in (1, 2):
            ending.ended(launch(spool, number))
            await asyncio.sleep(0)
        assert not clearing.settled, "no launch waits for these slots"
        ending.ended(launch(spool, 3))
        await eventually_async(lambda: len(reported) == 3, what="the third end is reported at once")
    assert clearing.settled == [3]
