"""Pending reasons for the jobs that wait after a pass: code, sentence, the job ahead, and the expected start.

The expected start of the first jobs is computed by giving each in turn the earliest interval that the known
future still allows. This is a late estimate, and exact for jobs with a reservation. Jobs further back share
the sentence of their equivalence class.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.model import JobId, PendingReason
from warpdeck.notation.values.durations import roughly
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.block_reason import BUSY, IN_LINE, BlockReason
from warpdeck.policy.placement.request_shape import RequestClass
from warpdeck.policy.reservations.partial_reservation import in_words
from warpdeck.policy.reservations.resource_pool import ResourcePool, known
from warpdeck.policy.resources.cluster import Ints, Mask
from warpdeck.policy.scheduler.scheduling_pass import SchedulingPass

from .shortage import INSTANT_S, Shortages

FORECAST_CELLS = 250_000
"""Maximum of rows x steps that the forecasts of one pass may examine. It bounds the time on large
clusters.
"""


def explain(
    current: SchedulingPass,
    rows: Ints,
    *,
    in_line: Ints,
    forecasts: int | None = None,
    told: Mask | None = None,
) -> dict[JobId, PendingReason]:
    """Return a `PendingReason` for every job of these rows that did not start completely. The rows are in the order of
    the pass.

    `in_line` are the rows of jobs that were not tried. `forecasts` is the number of jobs whose expected start
    is computed; None means as many as a pass can afford. `told` restricts the result to these rows; None
    means all.
    """
    if not len(rows) or (told is not None and not told.any()):
        return {}
    waits = current.who_waits(rows)
    if not waits.any() and not current.partly:
        return {}
    return _Explainer(current, rows, in_line, told, waits).run(forecasts)


class _Explainer:
    """Computes the pending reasons of a pass. Jobs of one equivalence class that were not tried one by one
    form a group and share a sentence.
    """

    def __init__(
        self, current: SchedulingPass, rows: Ints, in_line: Ints, told: Mask | None, waits: Mask
    ) -> None:
        table, count = current.context.queue.table, len(current.context.queue.kinds)
        self._pass = current
        self._rows = rows
        self._ids: Ints = table["id"][rows]
        self._group: Ints = table["kind"][rows]
        """The group of each job, by position in the order."""
        if len(in_line):
            self._group[np.isin(rows, in_line)] += count
        self._groups = 2 * count
        self._waits = waits
        self._told = np.ones(len(rows), dtype=np.bool_) if told is None else told
        self._own = self._find_own()
        self._missing: dict[int, tuple[str, str]] = {}
        self._shortages: dict[int, Shortages] = {}
        self._words: dict[tuple[BlockReason, JobId | None], tuple[str, str]] = {}
        self._first = self._find_first()

    def run(self, forecasts: int | None) -> dict[JobId, PendingReason]:
        alone = self._alone(self._affordable() if forecasts is None else forecasts)
        shared = self._shared(alone)
        # These are computed before the forecasts take resources from the timeline.
        said = {place: self._in_words(place) for place in alone}
        places = self._told & self._waits
        pending_reasons = dict(
            zip(
                self._ids[places].tolist(),
                map(shared.__getitem__, self._group[places].tolist()),
                strict=True,
            )
        )
        for job_id in self._ids[self._told & ~self._waits].tolist():
            if job_id in self._pass.partly:
                code, sentence = self._pass.partly[job_id]
                pending_reasons[job_id] = PendingReason(code=code, sentence=sentence)
        for place, (code, sentence) in said.items():
            pending_reasons[JobId(int(self._ids[place]))] = self._why(place, code, sentence)
        return pending_reasons

    def _find_own(self) -> dict[int, BlockReason]:
        """Return, by position, the block reasons of jobs tried one by one that differ from the block reason
        of their group.
        """
        blocked = self._pass.blocked
        places = np.flatnonzero(np.isin(self._ids, list(blocked))).tolist()
        own = {place: blocked[self._ids[place]] for place in places}
        return {place: met for place, met in own.items() if met is not self._met(self._group[place])}

    def _met(self, group: int) -> BlockReason:
        """Return the block reason that the jobs of the group have in common."""
        asked = len(self._pass.context.queue.kinds)
        return IN_LINE if group >= asked else self._pass.classes.blocked_by(int(group)) or BUSY

    def _obstacle(self, place: int) -> BlockReason:
        return self._own.get(place) or self._met(self._group[place])

    def _first_places(self, wanted: Mask) -> Ints:
        """Return the first of the wanted positions for each group, or the number of positions if there is
        none.
        """
        places = np.flatnonzero(wanted)[::-1]
        found: Ints = np.full(self._groups, len(self._rows), dtype=np.int64)
        found[self._group[places]] = places
        return found

    def _in_order(self, first: Ints) -> list[int]:
        """Return the groups that have a position, sorted by their first one."""
        groups = np.flatnonzero(first < len(self._rows))
        found: list[int] = groups[np.argsort(first[groups])].tolist()
        return found

    def _find_first(self) -> dict[str | int, int]:
        """Return, for each partition and each pool of interest, the position of the first job that waits for
        resources.
        """
        first = self._first_places(self._waits)
        told = np.unique(self._group[self._told]).tolist()
        wanted = {key for group in told for key in self._among(group)}
        found: dict[str | int, int] = {}
        for group in self._in_order(first):
            among = wanted.intersection(self._among(group))
            if among and self._met(group).shape is not None:
                found.update(dict.fromkeys(among, int(first[group])))
                wanted -= among
                if not wanted:
                    break
        return found

    def _among(self, group: int) -> tuple[str, int]:
        """Return the partition and the pool of a group."""
        kind = group % len(self._pass.context.queue.kinds)
        queue = self._pass.context.queue
        return queue.kinds[kind].partition, int(queue.of_kind["pool"][kind])

    def _affordable(self) -> int:
        cells = self._pass.context.fields[""].timeline.cells
        return min(self._pass.context.settings.max_forecasts, FORECAST_CELLS // max(1, cells))

    def _alone(self, forecasts: int) -> list[int]:
        """Return the positions of the jobs that get a sentence of their own, in order, and note those that
        get a forecast.
        """
        promised = np.isin(self._ids, list(self._pass.reserved.start_unix)) & self._waits
        own = (*self._own, *np.flatnonzero(promised).tolist(), *self._first.values())
        wanted = {place for place in own if self._told[place]}
        ahead: list[int] = []
        if forecasts:
            mask = self._waits & ~promised
            mask[list(self._own)] = False
            mask &= self._is_first_with_shape(self._first_places(mask), forecasts)[self._group]
            ahead = np.flatnonzero(mask)[:forecasts].tolist()
        self._forecast_at = set(ahead)
        return sorted(wanted.union(ahead))

    def _is_first_with_shape(self, first: Ints, count: int) -> Mask:
        """Return, by group, whether it is among the first `count` groups that wait for resources."""
        found = np.zeros(self._groups, dtype=np.bool_)
        for group in self._in_order(first):
            if self._met(group).shape is not None:
                found[group] = True
                count -= 1
                if not count:
                    break
        return found

    def _shared(self, alone: list[int]) -> list[PendingReason | None]:
        """Return the reason for all other jobs, by group."""
        others = self._waits & self._told
        others[alone] = False
        first = self._first_places(others)
        found: list[PendingReason | None] = [None] * self._groups
        same: dict[tuple[BlockReason, str, int], PendingReason] = {}
        for group in self._in_order(first):
            key = (self._alike(self._met(group)), *self._among(group))
            why = same.get(key)
            if why is None:
                code, sentence = self._in_words(int(first[group]))
                why = same[key] = PendingReason(code=code, sentence=sentence)
            found[group] = why
        return found

    def _alike(self, met: BlockReason) -> BlockReason:
        """Return one representative of all block reasons that have the same sentence regardless of the
        user.
        """
        if met.shape is None or met.shape.tenant is None:
            return met
        shape = self._of(self._pass.context.fields[met.reservation]).alike(met.shape)
        return self._pass.context.fields[met.reservation].cluster_table.unplaceable(
            shape, met.duration_s, met.reservation
        )

    def _of(self, field: ResourcePool) -> Shortages:
        found = self._shortages.get(id(field))
        if found is None:
            found = self._shortages[id(field)] = Shortages(field)
        return found

    def _why(self, place: int, code: str, sentence: str) -> PendingReason:
        """Return the reason for a job, with its expected start if that is known."""
        current, obstacle, job_id = self._pass, self._obstacle(place), JobId(int(self._ids[place]))
        at_unix = current.reserved.start_unix.get(job_id)
        if at_unix is None and place in self._forecast_at and obstacle.shape is not None:
            at_unix = self._forecast(obstacle, obstacle.shape)
        leaving = [str(each.job_id) for each in current.preempts if each.for_job_id == job_id]
        if leaving:
            sentence = f"waits until preempted job {', '.join(leaving[:3])} has ended"
        if at_unix is None or not known(at_unix, current.context.now):
            return PendingReason(code=code, sentence=sentence)
        return PendingReason(code=code, sentence=sentence, expected_start_unix=at_unix)

    def _forecast(self, obstacle: BlockReason, shape: RequestClass) -> float | None:
        field = self._pass.context.fields[obstacle.reservation]
        later = field.find_later(shape, obstacle.duration_s)
        if later is None:
            return None
        field.reserve(later[1], later[0], obstacle.duration_s)
        return later[0]

    def _in_words(self, place: int) -> tuple[str, str]:
        """Return (reason code, sentence) for the job at this position."""
        obstacle = self._obstacle(place)
        if obstacle.sentence:
            return obstacle.code, obstacle.sentence
        partition, pool = self._among(int(self._group[place]))
        if obstacle.shape is None:
            ahead = self._ahead(pool, place)
            named = f"job {ahead.name} of {ahead.user}" if ahead is not None else "a job"
            return "Priority", f"{named} is ahead in the queue, and jobs start in strict order"
        ahead = self._ahead(partition, place)
        key = (obstacle, None if ahead is None else ahead.id)
        found = self._words.get(key)
        if found is None:
            found = self._words[key] = self._find_words(obstacle, obstacle.shape, ahead)
        return found

    def _ahead(self, among: str | int, place: int) -> PendingJob | None:
        """Return the first waiting job of a partition or pool if it is another job."""
        first = self._first.get(among, place)
        return self._pass.context.queue.jobs[self._rows[first]] if first != place else None

    def _find_words(
        self, obstacle: BlockReason, shape: RequestClass, ahead: PendingJob | None
    ) -> tuple[str, str]:
        field = self._pass.context.fields[obstacle.reservation]
        begins = self._begins(obstacle.reservation)
        if begins:
            return "Reservation", begins
        code, sentence = self._shortage(field, shape)
        if code != "Priority":
            return code, sentence
        window = self._closing(field, shape, obstacle.duration_s)
        if window:
            return "ReqNodeNotAvail", window
        if ahead is None:
            return "Resources", "would fit now, but not for its full time limit"
        return code, f"would fit now, but would delay job {ahead.name} of {ahead.user}, which is ahead"

    def _begins(self, name: str) -> str:
        """Return a sentence if the job's reservation has not begun yet, else ""."""
        now = self._pass.context.now
        each = next(
            (each for each in self._pass.context.view.reservations if name and each.name == name), None
        )
        if each is None or each.flex or each.start_unix <= now:
            return ""
        return f"its reservation {name} starts in {roughly(each.start_unix - now)}"

    def _shortage(self, field: ResourcePool, shape: RequestClass) -> tuple[str, str]:
        """Return (reason code, missing resources) for this request class."""
        found = self._missing.get(id(shape))
        if found is None:
            found = self._missing[id(shape)] = self._look(field, shape)
        return found

    def _look(self, field: ResourcePool, shape: RequestClass) -> tuple[str, str]:
        if not shape.gangs:
            return "BadConstraints", f"no possible placement for {shape.wants}"
        shortages = self._of(field)
        if shortages.fits_now(shape):
            return "Priority", ""
        takes = shortages.usable(shape)
        holder = self._holder(field, takes)
        if holder:
            return "ReqNodeNotAvail", f"waits for {shape.wants}: {holder}"
        missing = f"waits for {shape.wants}: {shortages.of(shape)}{self._set_aside(field, takes)}"
        are_there = np.count_nonzero(takes) >= min(gang.nodes for gang in shape.gangs)
        return ("Resources" if are_there else "ReqNodeNotAvail"), missing

    def _holder(self, field: ResourcePool, takes: Mask) -> str:
        """Return a sentence naming the reservation that now holds the usable nodes; "" if some usable node is
        in no reservation.
        """
        now = self._pass.context.now
        active = [
            each
            for each in self._pass.context.view.reservations
            if each.start_unix <= now < each.end_unix and not each.parts
        ]
        if not active or field is not self._pass.context.fields[""]:
            return ""
        theirs = [(each, field.cluster.named(each.nodes) & takes) for each in active]
        inside = [each for each, rows in theirs if rows.any()]
        if not inside or (takes & ~np.logical_or.reduce([rows for _, rows in theirs])).any():
            return ""
        first = min(inside, key=lambda each: (each.end_unix, each.name))
        what = "maintenance" if first.maintenance else "reservation"
        ends = f" for another {roughly(first.end_unix - now)}" if known(first.end_unix, now) else ""
        return f"{what} {first.name} holds {'its nodes' if len(inside) == 1 else 'some of its nodes'}{ends}"

    def _set_aside(self, field: ResourcePool, takes: Mask) -> str:
        """Return a sentence about partial reservations on these nodes: those the job cannot use, or the one
        it is bound to; else "".
        """
        now = self._pass.context.now
        of_parts = [
            each
            for each in self._pass.context.view.reservations
            if each.parts
            and each.start_unix <= now < each.end_unix
            and (field.cluster.named(each.nodes) & takes).any()
        ]
        own = next((each for each in of_parts if self._pass.context.fields.get(each.name) is field), None)
        if own is not None and not own.is_everywhere:
            return f"; reservation {own.name} has {in_words(own)}"
        others = [each for each in of_parts if each is not own]
        if not others:
            return ""
        first = min(others, key=lambda each: (each.end_unix, each.name))
        return f"; {in_words(first)} are set aside for reservation {first.name}"

    def _closing(self, field: ResourcePool, shape: RequestClass, duration_s: float) -> str:
        """Return a sentence about a reservation that begins before the job could end, or "" if there is
        none.
        """
        if not self._pass.context.view.reservations:
            return ""
        spot = field.find_now(shape, INSTANT_S)
        names = set(field.names(spot)) if spot else set()
        now = self._pass.context.now
        closing = [
            each
            for each in self._pass.context.view.reservations
            if now < each.start_unix < now + duration_s and names & each.nodes
        ]
        if not closing:
            return ""
        first = min(closing, key=lambda each: (each.start_unix, each.name))
        what = "maintenance" if first.maintenance else "reservation"
        left = roughly(first.start_unix - now)
        return f"would fit now, but {what} {first.name} starts in {left}; a shorter --time starts it now"
