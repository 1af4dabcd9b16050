"""Waiting for ends: each waiter receives every end once, and then the message that nothing is left.

The jobs are those of test_prefetch_properties: prefetched, revoked, ended, canceled, held and released, while
controllers and agents are killed. In addition, jobs are requeued and connections are lost.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.property.test_prefetch_properties import PrefetchMachine, pick
from tests.support.core import ANN, result_of

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event, Requeued
from warpdeck.controller.loop.commit_barrier import CommitBarrier
from warpdeck.controller.loop.end_waiters import EndRequest, EndWaiters


class Waiting:
    """A client that waits for submissions, over any number of connections."""

    def __init__(self, watch: EndWaiters, numbers: set[int]) -> None:
        self.numbers = numbers
        self.done: set[int] = set()
        self.reported: set[tuple[int, int]] = set()
        self.connect(watch)

    def connect(self, watch: EndWaiters) -> None:
        """Use a new connection, on which unfinished submissions are requested and reported from the start."""
        self.received: list[tuple[int, int]] = []
        self.request = EndRequest(watch)
        self.request.add(self.numbers - self.done)

    def read(self) -> None:
        """Read the messages that are available now."""
        for page in result_of(self.request.poll()):
            assert all(job.is_finished for job in page.ended), "a job is reported that has not ended"
            assert not page.unknown
            self.received += [(job.id, job.restarts) for job in page.ended]
            if page.done:
                self.done.add(page.number)
        assert len(self.received) == len(set(self.received)), "an end is reported twice on one connection"
        self.reported.update(self.received)


class EndWaiterMachine(PrefetchMachine):
    """The state machine of prefetched tasks with clients that wait for ends."""

    def watch_all(self) -> None:
        """Report the changed jobs of every commit to the waiters, as the controller does."""
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
    def client_waits(self, which: int, both: bool) -> None:
        """Wait for one submission, or for all."""
        self.watch_all()
        ids = sorted({job.array_job_id for job in self.core.state.jobs.values()})
        if ids and len(self.waiting) < 5:
            self.waiting.append(Waiting(self.watch, set(ids) if both else {ids[which % len(ids)]}))

    @rule(which=pick)
    @precondition(lambda self: bool(getattr(self, "waiting", None)))
    def waiter_reads(self, which: int) -> None:
        self.waiting[which % len(self.waiting)].read()

    @rule(which=pick)
    @precondition(lambda self: bool(getattr(self, "waiting", None)))
    def connection_is_lost(self, which: int) -> None:
        lost = self.waiting[which % len(self.waiting)]
        lost.request.close()
        lost.connect(self.watch)

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

    def controller_is_killed(self) -> None:
        super().controller_is_killed()
        if hasattr(self, "waiting"):
            self.watch = self.make_watch()
            for each in self.waiting:
                each.connect(self.watch)

    def teardown(self) -> None:
        super().teardown()
        for each in getattr(self, "waiting", ()):
            while each.request._waiter.changed.is_set():
                each.read()
            assert each.done == each.numbers, "a client waits forever"
            for number in each.numbers:
                ended = result_of(self.core.store.named(number))
                missed = {(job.id, job.restarts) for job in ended} - each.reported
                assert not missed, f"ends that were never reported: {missed}"
            assert not len(each.request)
        if hasattr(self, "watch"):
            assert not self.watch.waiting, "a waiter with nothing to wait for is still listed"


EndWaiterMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestEndWaiters = EndWaiterMachine.TestCase
