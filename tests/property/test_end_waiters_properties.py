"""Waiting for ends: each waiter receives every end once, and then the message that nothing is left.

The jobs are those of test_prefetch_properties: prefetched, revoked, ended, canceled, held and released, with
controllers
and agents that are killed. In addition, jobs are requeued and connections are lost.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.property.test_prefetch_properties import Follow, pick
from tests.support.core import ANN, done

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Event, Outcome, Requeued
from warpdeck.controller.loop.commit_barrier import CommitBarrier
from warpdeck.controller.loop.end_waiters import EndRequest, EndWaiters


class Waiting:
    """A client that waits for submissions, over any number of connections."""

    def __init__(self, watch: EndWaiters, numbers: set[int]) -> None:
        self.numbers = numbers
        self.done: set[int] = set()
        self.told: set[tuple[int, int]] = set()
        self.ask(watch)

    def ask(self, watch: EndWaiters) -> None:
        """Ask on a new connection: unfinished submissions are requested again, and reported from the
        start.
        """
        self.here: list[tuple[int, int]] = []
        self.asked = EndRequest(watch)
        self.asked.add(self.numbers - self.done)

    def hear(self) -> None:
        """Read the messages that are available now."""
        for page in done(self.asked.poll()):
            assert all(job.is_finished for job in page.ended), "a job is told that has not ended"
            assert not page.unknown
            self.here += [(job.id, job.restarts) for job in page.ended]
            if page.done:
                self.done.add(page.number)
        assert len(self.here) == len(set(self.here)), "an end is told twice on one connection"
        self.told.update(self.here)


class Await(Follow):
    """The same state machine with waiters."""

    def watch_all(self) -> None:
        """Report the touched jobs of every commit, as the controller does."""
        if hasattr(self, "waiting"):
            return
        self.waiting: list[Waiting] = []
        self.watch = self.make_watch()
        apply = self.core.apply

        def touching(event: Event) -> Outcome:
            before = dict(self.core.state.jobs)
            outcome = apply(event)
            after = self.core.state.jobs
            changed = [job_id for job_id in before | after if before.get(job_id) is not after.get(job_id)]
            self.watch.touch(changed)
            return outcome

        self.core.apply = touching  # type: ignore[method-assign]

    def make_watch(self) -> EndWaiters:
        return EndWaiters(self.core.state, self.core.store, CommitBarrier(self.core.store))

    @rule(which=pick, both=st.booleans())
    def somebody_waits(self, which: int, both: bool) -> None:
        """Wait for one submission, or for all."""
        self.watch_all()
        ids = sorted({job.array_job_id for job in self.core.state.jobs.values()})
        if ids and len(self.waiting) < 5:
            self.waiting.append(Waiting(self.watch, set(ids) if both else {ids[which % len(ids)]}))

    @rule(which=pick)
    @precondition(lambda self: getattr(self, "waiting", None))
    def hears(self, which: int) -> None:
        self.waiting[which % len(self.waiting)].hear()

    @rule(which=pick)
    @precondition(lambda self: getattr(self, "waiting", None))
    def connection_is_lost(self, which: int) -> None:
        lost = self.waiting[which % len(self.waiting)]
        lost.asked.close()
        lost.ask(self.watch)

    @rule(which=pick)
    def requeue(self, which: int) -> None:
        """Requeue only running jobs: to a waiter, a finished job that runs again has ended."""
        running = sorted(
            job.id for job in self.core.state.jobs.values() if job.start_at_unix and not job.is_finished
        )
        if running:
            job = self.core.state.jobs[running[which % len(running)]]
            try:
                self.send(self.core.apply(Requeued(principal=ANN, jobs=(job.label(),))).effects)
            except UserError:
                pass  # belongs to another user

    def controller_is_killed(self) -> None:  # type: ignore[override]
        super().controller_is_killed()
        if hasattr(self, "waiting"):
            self.watch = self.make_watch()
            for each in self.waiting:
                each.ask(self.watch)

    def teardown(self) -> None:
        super().teardown()
        for each in getattr(self, "waiting", ()):
            while each.asked._waiter.changed.is_set():
                each.hear()
            assert each.done == each.numbers, "somebody waits for ever"
            for number in each.numbers:
                ended = done(self.core.store.named(number))  # type: ignore[arg-type]
                missed = {(job.id, job.restarts) for job in ended} - each.told
                assert not missed, f"ends that were never told: {missed}"
            assert not len(each.asked)
        if hasattr(self, "watch"):
            assert not self.watch.waiting, "who waits for nothing is still listed"


Await.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestAwait = Await.TestCase
