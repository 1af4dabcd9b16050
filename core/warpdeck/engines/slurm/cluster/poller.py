"""Reads Slurm again and again into the copy of the cluster, no more often than is allowed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, suppress
from typing import Protocol

from warpdeck.base.background_task import background
from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import Record, SlurmCommands
from warpdeck.engines.slurm.reading.config_table import read_config
from warpdeck.engines.slurm.reading.job_table import (
    COLUMNS,
    ONE_JOB_COLUMNS,
    WIDE_LIST_BYTES,
    SeenJob,
    read_job,
)
from warpdeck.engines.slurm.reading.marked_table import MalformedTable
from warpdeck.engines.slurm.reading.node_table import flags_of, gpus_in_use, partitions_of, read_nodes
from warpdeck.engines.slurm.reading.partition_table import read_partitions
from warpdeck.model import Job, JobId, JobState, NodeName

from .allocations import Allocations
from .answers import AnswerLost, Answers, Reading
from .cluster import Cluster
from .cluster_load import ClusterLoad
from .job_changes import JobChanges, compare, complete_lists, find_vanished
from .node_reading import Answer, nodes_of, partitions_of_answer
from .polling import (
    ALWAYS,
    MINUTE_S,
    PLANS,
    QUESTIONS,
    Allowance,
    Asked,
    Source,
    due_after_action_s,
    due_in_s,
    is_load_wanted,
    rpcs_a_minute,
)
from .questions import SQUEUE, Question

log = logging.getLogger("warpdeck.slurm")

RETRY_S = 5.0
"""Seconds until the next attempt after Slurm did not answer. An attempt that fails costs slurmctld nothing or little."""
LOOK_RPCS = 3
"""Requests of a squeue for one job: the job, the partitions and the federation."""
MAX_RETRY_S = 60.0
EVICT_S = 60.0
LIST_S = 600.0
"""Seconds between two looks at an array of which squeue cuts the list. A later task may have been canceled."""
FIRST_LOOK_S = 10.0
FIRST_JOBS = 500
"""Number of jobs of the first queue that are shown before it was read completely."""
FRESH_S = 10.0
"""Age of a queue up to which a user who begins to look needs no new one."""
FIRST_QUEUE_S = 30.0
GLANCE_S = 5.0
"""Maximum seconds for which a single answer waits for the first queue of a gateway, and for a newer one."""
RESULT_S = 30.0
"""Seconds after an action in which a job that starts or ends is taken for its result."""
FOLLOW_S = (2.0, 6.0)
"""Pauses before the looks at a job that was just submitted."""
SELDOM_S = 3600.0
"""Seconds after which the partitions and the configuration are read again. Administrators change them seldom."""
SHARED_S, SHARED_IDLE_S = 5.0, 60.0
"""Seconds between two questions to the site gateway while somebody looks, and while nobody looks. They cost no request."""
SHARED_AGAIN_S = 1.0
"""Minimum seconds between two questions to the site gateway for users who begin to look."""

AfterQueue = Callable[[JobChanges], Awaitable[None]]
"""Is called with the changes of each queue, after they were applied. It ends the jobs that vanished."""


class OnDemand(Protocol):
    """A source that is read only while somebody looks and it is needed."""

    def is_needed(self) -> bool: ...

    async def read(self) -> None: ...


class Poller:
    """The task that reads Slurm. `monotonic` returns seconds of a clock that never jumps."""

    def __init__(
        self,
        cluster: Cluster,
        commands: SlurmCommands,
        allowance: Allowance,
        answers: Answers,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._commands = commands
        self._answers = answers
        answers.is_looking = lambda: self.looking
        self._allowance = allowance
        self._monotonic = monotonic
        self._asked: dict[Source, Asked] = {}
        """The newest answers. Those of the site gateway were begun before we asked for them."""
        self._tried: dict[Source, float] = {}
        """Times at which we asked last, also if there was no newer answer."""
        self._looking = 0
        """Number of clients that look at the cluster now."""
        self._follow_allowance = allowance.same()
        """Limits the looks at jobs that were just submitted, because a script may submit many."""
        self._urgent: set[Source] = set()
        self._after_action: set[Source] = set()
        """Sources that are to be read because a user has changed a job."""
        self._acted: float | None = None
        """Time of the last action of a user."""
        self._glanced: float | None = None
        """Time of the last request of a user who looks once."""
        self._wake = asyncio.Event()
        self._was_asked = asyncio.Condition()
        self._failures = dict.fromkeys(Source, 0)
        self._problems = dict.fromkeys(Source, "")
        self._follows: set[asyncio.Task[None]] = set()
        self._first_look = asyncio.Event()
        self.allocations = Allocations(cluster, commands, answers)
        self._read = {
            Source.JOBS: self._read_jobs,
            Source.NODES: self._read_nodes,
        }
        self.on_demand: dict[Source, OnDemand] = {
            Source.ALLOCATIONS: self.allocations,
            Source.LOAD: ClusterLoad(answers=answers, allowance=allowance, monotonic=monotonic),
        }
        """Sources that are read only while somebody looks."""
        self._needed: Sequence[Source] = ALWAYS
        """The sources that are read at present."""
        self._seldom: dict[Question, tuple[Answer, float]] = {}
        """Output of commands that are run seldom, and when."""
        self.after_queue: AfterQueue | None = None
        self._cut: dict[JobId, int] = {}
        """Arrays of which squeue has cut the list of waiting tasks, each with the last task that it told."""
        self._lists_read: dict[JobId, float] = {}
        """Times at which the whole lists of these arrays were read."""

    @property
    def looking(self) -> bool:
        """Whether somebody looks at the cluster now, or has looked a moment ago."""
        glanced = self._glanced is not None and self._monotonic() - self._glanced < MINUTE_S
        return self._looking > 0 or glanced

    @property
    def rate(self) -> float:
        """The number of requests in a minute at the present intervals."""
        allowed = self._allowance.allowed(looking=self.looking, now=self._monotonic())
        own = [source for source in self._needed if not self._is_shared(source)]
        return rpcs_a_minute(self._asked, read=own, allowed=allowed)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Read more often while the block runs, because somebody looks."""
        self._looking += 1
        self._read_if_old()
        try:
            yield
        finally:
            self._looking -= 1

    async def glance(self, source: Source = Source.JOBS) -> None:
        """Wait a moment for a new queue if the last one is old and the allowance permits it, because a user looks once.

        The first queue is waited for until it is complete.
        """
        self._glanced = now = self._monotonic()
        is_first = source is Source.JOBS and self._cluster.read_at is None
        last = self._tried.get(source)
        if not self._read_if_old(source) or self._problems[source]:
            return
        is_full = bool(self._allowance.wait_s(PLANS[source].rpcs, looking=True, now=now))
        if not is_first and is_full and not self._is_shared(source):
            return
        try:
            async with asyncio.timeout(FIRST_QUEUE_S if is_first else GLANCE_S), self._was_asked:
                await self._was_asked.wait_for(lambda: self._tried.get(source) != last)
        except TimeoutError:
            return

    def hurry(self, job_id: JobId | None = None) -> None:
        """Read the queue within a few seconds, because a user has changed a job.

        A job that was just submitted is also looked at alone a few times, because it may start soon.
        """
        self._glanced = self._acted = self._monotonic()
        self._after_action.add(Source.JOBS)
        self._wake.set()
        if job_id is not None:
            task = asyncio.create_task(self._follow(job_id))
            self._follows.add(task)
            task.add_done_callback(self._follows.discard)

    async def _follow(self, job_id: JobId) -> None:
        for pause_s in FOLLOW_S:
            await asyncio.sleep(pause_s)
            job = self._cluster.state.jobs.get(job_id)
            if job is None or job.state is not JobState.PENDING or job.held:
                return
            now = self._monotonic()
            if not self._follow_allowance.wait_s(LOOK_RPCS, looking=True, now=now):
                self._follow_allowance.count(LOOK_RPCS, now)
                with suppress(UserError, MalformedTable):
                    await self.look(job_id)

    def _read_if_old(self, source: Source = Source.JOBS) -> bool:
        """Make a source urgent if its last answer is old. Return whether it is."""
        last = self._asked.get(source)
        is_missing = source is Source.JOBS and self._cluster.read_at is None
        is_old = last is None or is_missing or self._monotonic() - last.started > FRESH_S
        if is_old:
            self._urgent.add(source)
        self._wake.set()
        return is_old

    def _read_changed_nodes(self, changes: JobChanges) -> None:
        """Read the nodes soon if jobs have started or ended on them, so that they agree with the queue."""
        known = self._cluster.state.jobs
        if not self.looking or all(_holds(job) == _holds(known.get(job.id)) for job in changes.jobs):
            return
        self._urgent.add(Source.NODES)
        if self._acted is not None and self._monotonic() - self._acted < RESULT_S:
            self._after_action.add(Source.NODES)
        self._wake.set()

    async def look(self, job_id: JobId) -> None:
        """Read one job now, because a user waits for its start or its end. Raises UserError.

        slurmctld answers this from a table, so it costs little even if the queue is long.
        """
        cluster, begun = self._cluster, self._cluster.clock()
        self._allowance.count_action(LOOK_RPCS, self._monotonic())
        changes, seen = JobChanges(), list[SeenJob]()
        async with aclosing(self._commands.table((*SQUEUE, f"--jobs={job_id}"), ONE_JOB_COLUMNS)) as table:
            async for records in table:
                seen += [read_job(each, list_bytes=WIDE_LIST_BYTES) for each in records]
        seen = [each for each in seen if cluster.changed_at.get(each.job.id, 0.0) < begun]
        compare(cluster.state, seen, changes, now=begun)
        complete_lists(cluster.state, changes)
        cluster.note_scripts(seen)
        self._read_changed_nodes(changes)
        await cluster.change(changes)
        if self.after_queue is not None:
            await self.after_queue(changes)

    async def first_look(self) -> None:
        """Wait until everything was read once, or an attempt has failed, but not longer than a user would wait.

        A user waits, so the allowance is that of a time when somebody looks.
        """
        try:
            with self.watched():
                async with asyncio.timeout(FIRST_LOOK_S):
                    await self._first_look.wait()
        except TimeoutError:
            log.warning("Slurm has not answered within %.0f s", FIRST_LOOK_S)

    async def run(self) -> None:
        """Read until cancelled."""
        evicted = self._monotonic()
        while True:
            self._wake.clear()
            source, wait_s = self._next()
            if wait_s > 0:
                try:
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                continue
            await self._ask_safely(source)
            if self._monotonic() - evicted > EVICT_S:
                evicted = self._monotonic()
                self._cluster.evict()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Read while the block runs."""
        return background(self.run())

    def _next(self) -> tuple[Source, float]:
        """Return the source that is to be read next, and the seconds until then."""
        found = self.on_demand.items() if self.looking else ()
        self._needed = (*ALWAYS, *(source for source, demand in found if demand.is_needed()))
        return min(((each, self._wait_s(each)) for each in self._needed), key=lambda pair: pair[1])

    def _wait_s(self, source: Source) -> float:
        """Return the seconds until the source is to be read; 0 means now."""
        now, looking, last = self._monotonic(), self.looking, self._asked.get(source)
        tried = self._tried.get(source)
        urgent = source in self._urgent or bool(self._problems[source])
        if self._is_shared(source):
            usual = SHARED_S if looking else SHARED_IDLE_S
            pause_s = SHARED_AGAIN_S if urgent else usual
            wanted = max(0.0, tried + pause_s - now) if tried is not None else 0.0
        else:
            allowed = self._allowance.allowed(looking=looking, now=now)
            due = due_in_s(source, last, allowed=allowed, urgent=urgent, now=now)
            free = self._allowance.wait_s(PLANS[source].rpcs, looking=looking, now=now, is_usual=True)
            wanted = max(due, free)
        if source in self._after_action:
            wanted = min(wanted, due_after_action_s(last, now=now))
        failures = self._failures[source]
        retry = min(MAX_RETRY_S, RETRY_S * 2 ** (failures - 1)) if failures else 0.0
        held_back = max(0.0, tried + retry - now) if tried is not None and failures else 0.0
        return max(wanted, held_back)

    def _is_shared(self, source: Source) -> bool:
        """Return whether the site gateway answers this source, unless a user's action is to be shown."""
        return source in QUESTIONS and self._answers.are_shared(QUESTIONS[source])

    async def _ask_safely(self, source: Source) -> None:
        """Read a source. An error is kept for the users, who see how old the picture is."""
        try:
            await self._ask(source)
        except UserError as error:
            problem = f"{error.message}: {error.hint}" if error.hint else error.message
        except MalformedTable as error:
            problem = f"cannot read the output of squeue: {error}"
        except AnswerLost:
            problem = ""
        except Exception:
            log.exception("a bug stopped a look at Slurm")
            problem = "a look at Slurm failed because of a bug of warpdeck: see its log"
        else:
            problem = ""
        if problem:
            self._failures[source] += 1
        else:  # Slurm answers, so the other sources are read again soon.
            self._failures = dict.fromkeys(Source, 0)
        self._problems[source] = problem
        self._cluster.problem = next((self._problems[each] for each in ALWAYS if self._problems[each]), "")
        if problem or self._asked.keys() >= set(ALWAYS):
            self._first_look.set()
        async with self._was_asked:
            self._was_asked.notify_all()
        self._cluster.hub.wake()

    async def _ask(self, source: Source) -> None:
        self._tried[source] = tried = self._monotonic()
        is_urgent, is_own = source in self._urgent, source in self._after_action
        self._urgent.discard(source)
        self._after_action.discard(source)
        answer, is_new = None, True
        try:
            if source in self._read:
                if source is Source.JOBS:
                    config, is_changed = await self._read_seldom(Question.CONFIG)
                    if is_changed:
                        self._cluster.config = read_config(config.text)
                answer = await self._answers.open(QUESTIONS[source], is_urgent=is_urgent, is_own=is_own)
                if is_new := answer is not None:
                    await self._read[source](answer)
            else:
                if source not in QUESTIONS:
                    self._allowance.count(PLANS[source].rpcs, tried)
                await self.on_demand[source].read()
        except AnswerLost:
            is_new = False
            raise
        finally:
            if is_new:
                self._note_asked(source, tried, answer)

    def _note_asked(self, source: Source, tried: float, answer: Reading | None) -> None:
        """Note how long slurmctld took. If it seems to be busy, ask sdiag soon."""
        now = self._monotonic()
        begun = answer.begun if answer else tried
        took_s = answer.took_s if answer and answer.took_s is not None else now - tried
        self._asked[source] = Asked(started=begun, took_s=took_s)
        factor = self._allowance.load_factor(now)
        if is_load_wanted(took_s, self._asked.get(Source.LOAD), factor=factor, now=now):
            self._urgent.add(Source.LOAD)

    async def _read_jobs(self, reading: Reading) -> None:
        cluster = self._cluster
        begun = cluster.clock() - (self._monotonic() - reading.begun)
        changes, printed = JobChanges(), dict[JobId, int]()
        async with aclosing(reading.records(COLUMNS)) as table:
            async for records in table:
                seen = self._changed(records, printed, begun)
                compare(cluster.state, seen, changes, now=begun)
                await asyncio.sleep(0)
                if cluster.read_at is None and len(changes.jobs) - changes.shown >= FIRST_JOBS:
                    cluster.show(changes, most=FIRST_JOBS)  # The first screen need not wait for a long queue.
                    self._first_look.set()
        complete_lists(cluster.state, changes)
        find_vanished(cluster.state, printed, changes, unseen=begun)
        self._read_changed_nodes(changes)
        await cluster.apply(changes, begun=begun)
        cluster.was_read(printed, begun)
        if self.after_queue is not None:
            await self.after_queue(changes)
        await self._read_cut_list(changes)

    async def _read_cut_list(self, changes: JobChanges) -> None:
        """Read the waiting tasks of one array of this user, because squeue shows only the first ones. Repeat it after LIST_S."""
        jobs, now = self._cluster.state.jobs, self._monotonic()
        cut = self._cut | changes.cut_after
        self._cut = {job_id: after for job_id, after in cut.items() if job_id in jobs}
        self._lists_read = {job_id: at for job_id, at in self._lists_read.items() if job_id in self._cut}
        for job_id, after in self._cut.items():
            job = jobs[job_id]
            if job.uid != self._cluster.uid or not job.pending_tasks:
                continue
            last = self._lists_read.get(job_id)
            if last is None and job.pending_tasks[-1][1] > after:  # All tasks are known from the submission.
                last = self._lists_read[job_id] = now
            if last is not None and now - last <= LIST_S:
                continue
            if not self._allowance.wait_s(LOOK_RPCS, looking=self.looking, now=now):
                self._lists_read[job_id] = now
                with suppress(UserError, MalformedTable):
                    await self.look(job_id)
            return

    def _changed(self, records: Iterable[Record], printed: dict[JobId, int], begun: float) -> list[SeenJob]:
        """Return the jobs of these records, without those that squeue printed in the same way the last time.

        A job that a user has changed since squeue was started is left out, because the record may be older.
        """
        cluster, found = self._cluster, []
        before, changed_at = cluster.printed, cluster.changed_at
        for record in records:
            number = JobId(int(record["id"]))
            printed[number] = text = hash(tuple(record.values()))
            if before.get(number) != text and changed_at.get(number, 0.0) < begun:
                found.append(read_job(record))
        self._cluster.note_scripts(found)
        return found

    async def _read_nodes(self, reading: Reading) -> None:
        answer = Answer(await reading.text(), reading.mark)
        partitions, _ = await self._read_seldom(Question.PARTITIONS)
        begun = self._cluster.clock() - (self._monotonic() - reading.begun)
        fields = await nodes_of(
            answer, self._commands, count=lambda rpcs: self._allowance.count(rpcs, self._monotonic())
        )
        rows = read_nodes(fields, at=begun)
        await self._cluster.put_nodes(
            rows,
            partitions_of(fields),
            read_partitions(partitions_of_answer(partitions), rows),
            flags_of(fields),
            gpus_in_use(fields),
            begun=begun,
        )
        await self.allocations.confirm()

    async def _read_seldom(self, question: Question) -> tuple[Answer, bool]:
        """Return the answer to a question that is asked seldom, and whether it is new. Raises UserError or AnswerLost."""
        now = self._monotonic()
        answer, at = self._seldom.get(question, (Answer("", ""), now - SELDOM_S))
        if now - at < SELDOM_S:
            return answer, False
        reading = await self._answers.open(question, any_age=True)
        if reading is None and answer.text:
            return answer, False
        reading = reading or await self._answers.open(question, is_own=True)
        assert reading is not None
        answer = Answer(await reading.text(), reading.mark)
        self._seldom[question] = answer, now
        return answer, True


def _holds(job: Job | None) -> frozenset[NodeName]:
    """Return the nodes that a job holds."""
    if job is None or job.is_finished or job.allocation is None:
        return frozenset()
    return frozenset(job.allocation.node_names())
