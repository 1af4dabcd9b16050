"""Waiting for the end of jobs that are revoked, not in memory, not on disk yet, or unknown."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.core import ANN, Core, make_request, result_of

from warpdeck.controller.events.events import Cancelled, LaunchRevoked, Planned, Prefetch, Requeued
from warpdeck.controller.loop.commit_barrier import CommitBarrier
from warpdeck.controller.loop.end_waiters import EndRequest, EndWaiters, SubmissionChanges
from warpdeck.controller.loop.housekeeping import evict_finished
from warpdeck.model import ArraySpec, Job, JobId, NodeName
from warpdeck.ports.store import Changes
from warpdeck.store import MemoryStore

ARRAY = ArraySpec(ranges=((0, 5, 1),))


def watch_of(core: Core) -> EndWaiters:
    return EndWaiters(core.state, core.store, CommitBarrier(core.store))


def pages_after_change(watch: EndWaiters, request: EndRequest, core: Core) -> list[SubmissionChanges]:
    """Return the messages after any change."""
    watch.touch(list(core.state.jobs))
    return result_of(request.poll())


def labels(pages: list[SubmissionChanges]) -> list[str]:
    return [job.label() for page in pages for job in page.ended]


def prefetched(core: Core) -> tuple[JobId, Job, Job]:
    """Return an array, its running task, and its prefetched task."""
    array = core.run(make_request(gpus=4, array=ARRAY))
    runs = next(job for job in core.state.jobs.values() if job.shares)
    core.apply(Planned(prefetches=(Prefetch(job_id=array, after=runs.id, tasks=(1,)),)))
    return array, runs, core.job(core.state.index.successor[runs.id])


def test_a_waiter_of_a_revoked_task_waits_for_its_array() -> None:
    core = Core("a")
    watch = watch_of(core)
    array, runs, task = prefetched(core)
    assert result_of(watch.record_of(task)) is task
    request = EndRequest(watch)
    request.add([array])
    assert result_of(request.poll()) == []
    core.apply(LaunchRevoked(name=NodeName("a"), launches=((task.id, 0),)))
    assert task.id not in core.state.jobs
    record = result_of(watch.record_of(task))
    assert record is not None and (record.id, record.is_folded_array) == (array, True)
    core.end(runs.id)
    assert labels(pages_after_change(watch, request, core)) == [f"{array}_0"]
    core.apply(Cancelled(principal=ANN, jobs=(str(array),)))
    (page,) = pages_after_change(watch, request, core)
    assert (labels([page]), page.done, page.unknown) == ([f"{array}_[1-5]"], True, False)
    assert not len(request) and not watch.waiting


def test_old_ends_are_reported_at_once_and_unknown_jobs_as_unknown() -> None:
    core = Core("a")
    watch = watch_of(core)
    job = core.run()
    core.end(job, exit_code=3)
    core.now += 10
    assert evict_finished(core.state, ended_before_unix=core.now) == [job]
    request = EndRequest(watch)
    request.add([job, 99])
    known, unknown = result_of(request.poll())
    assert [(each.id, str(each.exit)) for each in known.ended] == [(job, "3:0")]
    assert (known.done, known.unknown, unknown.done, unknown.unknown) == (True, False, True, True)


def test_an_end_that_left_memory_unseen_is_reported_with_the_last() -> None:
    core = Core("a")
    watch = watch_of(core)
    array = core.run(make_request(gpus=2, array=ArraySpec(ranges=((0, 1, 1),))))
    request = EndRequest(watch)
    request.add([array])
    result_of(request.poll())
    first, last = sorted(job.id for job in core.state.jobs.values())
    core.end(first)
    core.now += 10
    watch.touch(evict_finished(core.state, ended_before_unix=core.now))
    core.end(last)
    pages = pages_after_change(watch, request, core)
    assert sorted(labels(pages)) == [f"{array}_0", f"{array}_1"] and pages[-1].done


def test_a_requeued_job_does_not_count_as_ended() -> None:
    core = Core("a")
    watch = watch_of(core)
    job = core.run()
    request = EndRequest(watch, begun=True)
    request.add([job])
    assert [each.id for page in result_of(request.poll()) for each in page.begun] == [job]
    core.apply(Requeued(principal=ANN, jobs=(str(job),)))
    core.end(job, signal=15)
    assert core.job(job).restarts == 1 and pages_after_change(watch, request, core) == []
    core.launch(core.plan().effects)
    (page,) = pages_after_change(watch, request, core)
    assert [(each.id, each.restarts) for each in page.begun] == [(job, 1)]
    core.end(job)
    (page,) = pages_after_change(watch, request, core)
    assert (labels([page]), page.done) == ([str(job)], True)


class Disk(MemoryStore):
    """A store that is slow while its gate is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def commit(self, changes: Changes) -> None:
        await self.gate.wait()


@pytest.mark.parametrize("kept", [True, False], ids=["committed", "rolled-back"])
async def test_an_end_is_reported_only_after_its_commit(kept: bool) -> None:
    core = Core("a")
    disk = Disk()
    commits = CommitBarrier(disk)
    watch = EndWaiters(core.state, core.store, commits)
    job = core.run()
    before = core.job(job)
    request = EndRequest(watch)
    request.add([job])
    assert await request.poll() == []
    commit = asyncio.create_task(commits.commit(Changes()))
    await asyncio.sleep(0)
    core.end(job)
    watch.touch([job])
    pages_task = asyncio.create_task(request.poll())
    await asyncio.sleep(0)
    assert not pages_task.done()
    if not kept:
        core.state.upsert_job(before)
    disk.gate.set()
    await commit
    pages = await pages_task
    assert [page.done for page in pages] == ([True] if kept else [])
