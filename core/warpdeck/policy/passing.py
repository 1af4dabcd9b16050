"""The state of one planning pass: what has been decided, and what is blocked by what. Pure."""

from __future__ import annotations

import msgspec

from warpdeck.model import JobId, iter_tasks

from .answer import Preempt, Reserve, Resume, Start
from .field import Field, ends_of, known, open_fields, planned_s
from .limits import Ledger
from .placement import Shape, Spot
from .preemption import Preemption, Rules
from .settings import Settings
from .site import PartitionView, ReservationView, Tres
from .tres import asked_tres
from .view import PendingJob, RunningJob, View
from .why import partition_bars, throttled

MAX_RESERVATIONS = 1000
"""Reservations of waiting jobs in one pass, over all kinds of nodes; bounds its time."""


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job did not start. A `code` without `sentence` is put into words at the end of the pass."""

    code: str
    sentence: str = ""
    field: Field | None = None
    shape: Shape | None = None
    duration_s: float = 0.0


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job and what is in its way; `at_unix` is the start it has reserved."""

    job: PendingJob
    obstacle: Obstacle
    at_unix: float | None = None


Kind = tuple[object, ...]


class Pass:
    """Decides job by job. Jobs are offered in the order in which they have a right to start."""

    def __init__(self, view: View, now: float, settings: Settings) -> None:
        self.view = view
        self.now = now
        self.settings = settings
        self.fields = open_fields(view, now, settings)
        self.ledger = Ledger(view, now, settings)
        self.rules = Rules(view, now, settings, self.ledger)
        self.starts: list[Start] = []
        self.reserves: list[Reserve] = []
        self.preempts: list[Preempt] = []
        self.resumes: list[Resume] = []
        self.blocked: list[Blocked] = []
        self.partly: dict[JobId, tuple[str, str]] = {}
        """Arrays of which tasks started: the reason of the rest."""
        self.stopped = False
        self._partitions = {part.name: part for part in view.partitions}
        self._reservations = {each.name: each for each in view.reservations}
        self._preemption = Preemption(self.rules, self.fields[""].timeline, view.running, now)
        self._failed: dict[Kind, Obstacle] = {}
        self._too_long: dict[int, float] = {}
        self._protected: dict[Kind, int] = {}
        self._never: dict[int, float] = {}
        self._no_victims: set[Kind] = set()
        self._tests = 0
        self._tres: dict[int, Tres] = {}
        self._tasks: dict[JobId, int] = {}
        for job in view.running:
            self._tasks[job.array_job_id] = self._tasks.get(job.array_job_id, 0) + 1

    def tres(self, job: PendingJob) -> Tres:
        """What the job counts against limits."""
        found = self._tres.get(id(job.resources))
        if found is None:
            found = asked_tres(
                job.resources,
                self.settings.billing_weights,
                default_mem_per_cpu=self.settings.default_mem_per_cpu_bytes,
            )
            for name, count in job.licenses:
                found[f"license/{name}"] = count
            self._tres[id(job.resources)] = found
        return found

    def partitions(self, job: PendingJob) -> list[PartitionView | None]:
        """Those the job may run in, in its order; [None] where the site has none."""
        if not self._partitions:
            return [None]
        names = (job.partition or self.settings.default_partition).split(",")
        return [self._partitions[name] for name in names if name in self._partitions] or [None]

    def limit_s(self, job: PendingJob, partition: PartitionView | None) -> int | None:
        """Its time limit, or the default."""
        if job.time_limit_s is not None:
            return job.time_limit_s
        if partition is not None and partition.default_time_s is not None:
            return partition.default_time_s
        return self.settings.default_time_s

    def is_protecting_enough(self, job: PendingJob) -> bool:
        """Whether as many blocked jobs of its kind of nodes as the policy protects are ahead of it."""
        if self.settings.backfill == "conservative":
            return False
        most = 1 if self.settings.backfill == "none" else self.settings.reservations
        return self._protected.get(_pool(job), 0) >= most

    def try_job(self, job: PendingJob) -> None:
        """Starts the job, or as many of its tasks as can start; what is left is blocked."""
        for task in iter_tasks(job.tasks) if job.tasks else (None,):
            if job.throttle and self._tasks.get(job.array_job_id, 0) >= job.throttle:
                reason = throttled(job)
                self.partly[job.id] = (reason.code, reason.sentence)
                return
            obstacle = self._start(job, task)
            if obstacle is not None:
                self._block(job, obstacle)
                return
        if job.tasks:
            self.partly[job.id] = ("None", "starting")

    def pass_over(self, job: PendingJob) -> None:
        """Strict order: somebody ahead does not fit, so this one is not tried."""
        self.blocked.append(Blocked(job=job, obstacle=Obstacle(code="Priority")))

    def resume_suspended(self) -> None:
        """Suspended jobs go on where nobody with a claim on their place waits, highest priority first."""
        field = self.fields[""]
        for job in sorted(self.view.running, key=lambda each: (-each.priority, each.id)):
            stopped = job.suspended and job.resumes_to is not None
            if stopped and not self._is_claimed(job) and self._resume(field, job):
                self.resumes.append(Resume(job_id=job.id))

    def _start(self, job: PendingJob, task: int | None) -> Obstacle | None:
        """Starts one task; the obstacle if it cannot."""
        if len(self.starts) >= self.settings.max_starts:
            self.stopped = True
            return Obstacle(
                code="None", sentence="may start in a moment: the scheduler is busy starting others"
            )
        kind = _kind(job)
        known_obstacle = self._failed.get(kind)
        if known_obstacle is not None:
            return known_obstacle
        obstacles = []
        for partition in self.partitions(job):
            obstacle = self._start_in(job, task, partition)
            if obstacle is None:
                return None
            obstacles.append(obstacle)
        worth = next((each for each in obstacles if each.shape is not None), obstacles[0])
        self._failed[kind] = worth
        return worth

    def _start_in(
        self, job: PendingJob, task: int | None, partition: PartitionView | None
    ) -> Obstacle | None:
        limit_s = self.limit_s(job, partition)
        barred = self._bars(job, partition, limit_s)
        if barred is not None:
            return barred
        field = self.fields[job.reservation]
        shape = field.shape(job.resources, partition)
        duration_s = planned_s(limit_s)
        found = self._find(field, shape, duration_s)
        given_s = None
        if found is None and job.time_min_s is not None:
            found, given_s = self._shortened(field, shape, job, duration_s)
        if found is None:
            return Obstacle(code="Resources", field=field, shape=shape, duration_s=duration_s)
        if given_s is not None:
            duration_s = given_s
        allocation = field.start(found, duration_s)
        self.ledger.take(job, self.tres(job), None if limit_s is None else duration_s)
        self._tasks[job.array_job_id] = self._tasks.get(job.array_job_id, 0) + 1
        self.starts.append(
            Start(
                job_id=job.id,
                task=task,
                allocation=allocation,
                time_limit_s=None if given_s is None else int(given_s),
            )
        )
        return None

    def _bars(self, job: PendingJob, partition: PartitionView | None, limit_s: int | None) -> Obstacle | None:
        """What forbids the job to start here now, whatever is free."""
        if partition is not None:
            barred = partition_bars(job, partition, limit_s)
            if barred is not None:
                return Obstacle(code=barred[0], sentence=barred[1])
        if job.reservation:
            barred = self._reservation_bars(job, self._reservations.get(job.reservation))
            if barred is not None:
                return Obstacle(code=barred[0], sentence=barred[1])
        over = self.ledger.check(job, self.tres(job), limit_s)
        return None if over is None else Obstacle(code=over.code, sentence=over.sentence)

    def _reservation_bars(self, job: PendingJob, asked: ReservationView | None) -> tuple[str, str] | None:
        if asked is None or asked.end_unix <= self.now:
            return "ReservationDeleted", f"reservation {job.reservation} is over or was deleted"
        if asked.maintenance or not (job.user in asked.users or job.account in asked.accounts):
            return "Reservation", f"reservation {job.reservation} is not for {job.user}"
        return None

    def _find(self, field: Field, shape: Shape, duration_s: float) -> Spot | None:
        """A spot for so long from now; what failed once fails for as long or longer."""
        key = id(shape)
        failed = self._too_long.get(key)
        if failed is not None and duration_s >= failed:
            return None
        if self._tests >= self.settings.max_backfill_tests:
            self.stopped = self.stopped or bool(self.starts)
            return None
        self._tests += 1
        found = field.find_now(shape, duration_s)
        if found is None:
            self._too_long[key] = duration_s
        return found

    def _shortened(
        self, field: Field, shape: Shape, job: PendingJob, limit_s: float
    ) -> tuple[Spot | None, float | None]:
        """With --time-min: as long as it can have now, if that is enough."""
        assert job.time_min_s is not None
        longest = 0.0
        for gang in shape.gangs:
            for mask in shape.masks:
                windows = [field.timeline.longest_now(need, mask, count) for need, count in gang.wanted]
                longest = max(longest, min(windows))
        given_s = float(int(min(longest, limit_s)))
        if given_s < job.time_min_s or given_s <= 0:
            return None, None
        found = field.find_now(shape, given_s)
        return found, None if found is None else given_s

    def _block(self, job: PendingJob, obstacle: Obstacle) -> None:
        """Notes that the job waits; reserves for it, or makes room, if it has the right to that."""
        at_unix = None
        if obstacle.shape is not None and obstacle.field is not None:
            at_unix = self._secure(job, obstacle, obstacle.field, obstacle.shape)
        self.blocked.append(Blocked(job=job, obstacle=obstacle, at_unix=at_unix))

    def _secure(self, job: PendingJob, obstacle: Obstacle, field: Field, shape: Shape) -> float | None:
        """Reserves the earliest interval if the job is among those that are protected, or has others make room for it."""
        protects = not self.is_protecting_enough(job) and len(self.reserves) < MAX_RESERVATIONS
        pushes = self.rules.active and not job.reservation and _claimant(job) not in self._no_victims
        if not (protects or pushes):
            return None
        later = self._find_later(field, shape, obstacle.duration_s)
        soon = later is not None and later[0] <= self.now + self._patience_s()
        if pushes and not soon:
            at_unix = self._make_room(job, obstacle, field, shape)
            if at_unix is not None:
                return at_unix
        if later is None or not (protects or (pushes and soon)):
            return None
        field.reserve(later[1], later[0], obstacle.duration_s)
        self._note_reserve(job, field, later[1], later[0])
        return later[0]

    def _find_later(self, field: Field, shape: Shape, duration_s: float) -> tuple[float, Spot] | None:
        failed = self._never.get(id(shape))
        if failed is not None and duration_s >= failed:
            return None
        later = field.find_later(shape, duration_s)
        if later is None:
            self._never[id(shape)] = duration_s
        return later

    def _make_room(self, job: PendingJob, obstacle: Obstacle, field: Field, shape: Shape) -> float | None:
        """Has victims leave; when the job can then start, None if there are none that would help."""
        room = self._preemption.find(job, self.tres(job), shape)
        if room is None:
            self._no_victims.add(_claimant(job))
            return None
        spot, told = room
        self.preempts += told
        field.reserve(spot, self.now, obstacle.duration_s)
        at_unix = self.now + max(each.grace_s for each in told)
        self._note_reserve(job, field, spot, at_unix)
        return at_unix

    def _patience_s(self) -> float:
        """A job that starts within this of itself pushes nobody aside: those told to leave go in this time."""
        return max((self.rules.grace_s(job) for job in self.view.running if job.ending), default=0.0) + 1.0

    def _note_reserve(self, job: PendingJob, field: Field, spot: Spot, at_unix: float) -> None:
        self._protected[_pool(job)] = self._protected.get(_pool(job), 0) + 1
        if known(at_unix, self.now):
            self.reserves.append(Reserve(job_id=job.id, at_unix=at_unix, nodes=field.names(spot)))

    def _is_claimed(self, job: RunningJob) -> bool:
        as_running = msgspec.structs.replace(job, suspended=False)
        return any(
            self.rules.claim(blocked.job, self.tres(blocked.job), as_running) is not None
            for blocked in self.blocked
            if blocked.obstacle.shape is not None
        )

    def _resume(self, field: Field, job: RunningJob) -> bool:
        """Takes back what the job held, if all of it is free until its end."""
        assert job.resumes_to is not None
        ends = ends_of(job, self.now)
        takes = []
        for share, kept in zip(job.resumes_to.shares, job.allocation.shares, strict=True):
            row = field.cluster.row.get(share.node)
            if row is None:
                return False
            more = field.cluster.amounts(share) - field.cluster.amounts(kept)
            within = field.timeline.times[row] < ends
            if (field.timeline.free[:, row, within] < more[:, None]).any():
                return False
            if not set(share.gpus) - set(kept.gpus) <= field.board.free_indices(row):
                return False
            takes.append((row, more, share.gpus))
        for row, more, gpus in takes:
            field.timeline.take(row, self.now, ends, more)
            field.board.take(row, gpus)
        return True


def _pool(job: PendingJob) -> Kind:
    """Jobs of one pool compete for the same nodes, as far as their requests tell."""
    asked = job.resources
    return (job.partition, job.reservation, asked.gpus.type, asked.constraint, asked.nodelist)


def _claimant(job: PendingJob) -> Kind:
    """Jobs that may push the same others aside, for the same request."""
    return (id(job.resources), job.partition, job.account, job.qos)


def _kind(job: PendingJob) -> Kind:
    """Jobs of one kind meet the same obstacles within a pass."""
    return (
        id(job.resources),
        job.time_limit_s,
        job.partition,
        job.user,
        job.account,
        job.qos,
        job.reservation,
        job.licenses,
        job.time_min_s,
    )
