"""Pending reasons for the jobs that wait after a pass: code, sentence, the job ahead, and the expected start.

The expected starts of the first jobs are computed one after the other: each job takes the earliest interval
that the known future still allows. This is a late estimate, and exact for jobs with a reservation. Jobs
further back share the sentence of their equivalence class.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.model import JobId, PendingReason
from warpdeck.notation.values.durations import roughly
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.block_reason import BUSY, FIFO_BLOCKED, BlockReason
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.reservations.partial_reservation import parts_text
from warpdeck.policy.reservations.resource_pool import ResourcePool, is_predictable
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
    fifo_blocked: Ints,
    forecasts: int | None = None,
    explained: Mask | None = None,
) -> dict[JobId, PendingReason]:
    """Return a `PendingReason` for every job of these rows that did not start completely. The rows are in the
    order of the pass.

    `fifo_blocked` are the rows of jobs that were not tried, because jobs start in strict order. `forecasts`
    is the number of jobs for which an expected start is computed; None means as many as a pass can afford.
    `explained` restricts the result to these rows; None means all.
    """
    if not len(rows) or (explained is not None and not explained.any()):
        return {}
    waits = current.waiting_mask(rows)
    if not waits.any() and not current.partly:
        return {}
    return _Explainer(current, rows, fifo_blocked, explained, waits).run(forecasts)


class _Explainer:
    """Computes the pending reasons of a pass. Jobs of one equivalence class that were not tried one by one
    form a group and share a sentence.
    """

    def __init__(
        self, current: SchedulingPass, rows: Ints, fifo_blocked: Ints, explained: Mask | None, waits: Mask
    ) -> None:
        table, count = current.context.queue.table, len(current.context.queue.representatives)
        self._pass = current
        self._rows = rows
        self._ids: Ints = table["id"][rows]
        self._group: Ints = table["class"][rows]
        """The group of each job, by position in the order."""
        if len(fifo_blocked):
            self._group[np.isin(rows, fifo_blocked)] += count
        self._groups = 2 * count
        self._waits = waits
        self._explained = np.ones(len(rows), dtype=np.bool_) if explained is None else explained
        self._own = self._find_own()
        self._missing: dict[int, tuple[str, str]] = {}
        self._shortages: dict[int, Shortages] = {}
        self._texts: dict[tuple[BlockReason, JobId | None], tuple[str, str]] = {}
        self._first = self._find_first()

    def run(self, forecasts: int | None) -> dict[JobId, PendingReason]:
        individual = self._individual(self._affordable() if forecasts is None else forecasts)
        shared = self._shared(individual)
        # These are computed before the forecasts take resources from the timeline.
        texts = {position: self._code_and_sentence(position) for position in individual}
        positions = self._explained & self._waits
        pending_reasons = dict(
            zip(
                self._ids[positions].tolist(),
                map(shared.__getitem__, self._group[positions].tolist()),
                strict=True,
            )
        )
        for job_id in self._ids[self._explained & ~self._waits].tolist():
            if job_id in self._pass.partly:
                code, sentence = self._pass.partly[job_id]
                pending_reasons[job_id] = PendingReason(code=code, sentence=sentence)
        for position, (code, sentence) in texts.items():
            pending_reasons[JobId(int(self._ids[position]))] = self._reason_with_start(
                position, code, sentence
            )
        return pending_reasons

    def _find_own(self) -> dict[int, BlockReason]:
        """Return, by position, the block reasons of jobs that differ from the block reason of their group."""
        blocked = self._pass.blocked
        positions = np.flatnonzero(np.isin(self._ids, list(blocked))).tolist()
        own = {position: blocked[self._ids[position]] for position in positions}
        return {
            position: block_reason
            for position, block_reason in own.items()
            if block_reason is not self._shared_reason(self._group[position])
        }

    def _shared_reason(self, group: int) -> BlockReason:
        """Return the block reason that the jobs of the group share."""
        class_count = len(self._pass.context.queue.representatives)
        return FIFO_BLOCKED if group >= class_count else self._pass.classes.blocked_by(int(group)) or BUSY

    def _block_reason(self, position: int) -> BlockReason:
        return self._own.get(position) or self._shared_reason(self._group[position])

    def _first_positions(self, mask: Mask) -> Ints:
        """Return, for each group, the first position in the mask, or the number of positions if there is none."""
        positions = np.flatnonzero(mask)[::-1]
        found: Ints = np.full(self._groups, len(self._rows), dtype=np.int64)
        found[self._group[positions]] = positions
        return found

    def _in_order(self, first: Ints) -> list[int]:
        """Return the groups that have a position, sorted by their first one."""
        groups = np.flatnonzero(first < len(self._rows))
        found: list[int] = groups[np.argsort(first[groups])].tolist()
        return found

    def _find_first(self) -> dict[str | int, int]:
        """Return the position of the first job that waits for resources, for each partition and contention
        group of the explained jobs.
        """
        first = self._first_positions(self._waits)
        explained = np.unique(self._group[self._explained]).tolist()
        unresolved = {key for group in explained for key in self._among(group)}
        found: dict[str | int, int] = {}
        for group in self._in_order(first):
            among = unresolved.intersection(self._among(group))
            if among and self._shared_reason(group).request_class is not None:
                found.update(dict.fromkeys(among, int(first[group])))
                unresolved -= among
                if not unresolved:
                    break
        return found

    def _among(self, group: int) -> tuple[str, int]:
        """Return the partition and the contention group of a group."""
        class_id = group % len(self._pass.context.queue.representatives)
        queue = self._pass.context.queue
        return queue.representatives[class_id].partition, int(queue.by_class["contention_group"][class_id])

    def _affordable(self) -> int:
        cells = self._pass.context.pools[""].timeline.cells
        return min(self._pass.context.settings.max_forecasts, FORECAST_CELLS // max(1, cells))

    def _individual(self, forecasts: int) -> list[int]:
        """Return the positions of the jobs that get a sentence of their own, in order. Record which of them
        get a forecast.
        """
        reserved = np.isin(self._ids, list(self._pass.reserved.start_unix)) & self._waits
        own = (*self._own, *np.flatnonzero(reserved).tolist(), *self._first.values())
        individual = {position for position in own if self._explained[position]}
        ahead: list[int] = []
        if forecasts:
            mask = self._waits & ~reserved
            mask[list(self._own)] = False
            mask &= self._is_among_first(self._first_positions(mask), forecasts)[self._group]
            ahead = np.flatnonzero(mask)[:forecasts].tolist()
        self._forecast_at = set(ahead)
        return sorted(individual.union(ahead))

    def _is_among_first(self, first: Ints, count: int) -> Mask:
        """Return, by group, whether it is among the first `count` groups that wait for resources."""
        found = np.zeros(self._groups, dtype=np.bool_)
        for group in self._in_order(first):
            if self._shared_reason(group).request_class is not None:
                found[group] = True
                count -= 1
                if not count:
                    break
        return found

    def _shared(self, individual: list[int]) -> list[PendingReason | None]:
        """Return the shared reason of each group, for the jobs without a sentence of their own."""
        others = self._waits & self._explained
        others[individual] = False
        first = self._first_positions(others)
        found: list[PendingReason | None] = [None] * self._groups
        same: dict[tuple[BlockReason, str, int], PendingReason] = {}
        for group in self._in_order(first):
            key = (self._alike(self._shared_reason(group)), *self._among(group))
            reason = same.get(key)
            if reason is None:
                code, sentence = self._code_and_sentence(int(first[group]))
                reason = same[key] = PendingReason(code=code, sentence=sentence)
            found[group] = reason
        return found

    def _alike(self, block_reason: BlockReason) -> BlockReason:
        """Return one representative of all block reasons that have the same sentence regardless of the user."""
        if block_reason.request_class is None or block_reason.request_class.owner is None:
            return block_reason
        request_class = self._of(self._pass.context.pools[block_reason.reservation]).alike(
            block_reason.request_class
        )
        return self._pass.context.pools[block_reason.reservation].cluster_table.classes.unplaceable(
            request_class, block_reason.duration_s, block_reason.reservation
        )

    def _of(self, pool: ResourcePool) -> Shortages:
        found = self._shortages.get(id(pool))
        if found is None:
            found = self._shortages[id(pool)] = Shortages(pool)
        return found

    def _reason_with_start(self, position: int, code: str, sentence: str) -> PendingReason:
        """Return the reason for a job, with its expected start if that is known."""
        current, block_reason, job_id = (
            self._pass,
            self._block_reason(position),
            JobId(int(self._ids[position])),
        )
        at_unix = current.reserved.start_unix.get(job_id)
        if at_unix is None and position in self._forecast_at and block_reason.request_class is not None:
            at_unix = self._forecast(block_reason, block_reason.request_class)
        leaving = [str(each.job_id) for each in current.preempts if each.for_job_id == job_id]
        if leaving:
            sentence = f"waits until preempted job {', '.join(leaving[:3])} has ended"
        if at_unix is None or not is_predictable(at_unix, current.context.now):
            return PendingReason(code=code, sentence=sentence)
        return PendingReason(code=code, sentence=sentence, expected_start_unix=at_unix)

    def _forecast(self, block_reason: BlockReason, request_class: RequestClass) -> float | None:
        pool = self._pass.context.pools[block_reason.reservation]
        later = pool.find_later(request_class, block_reason.duration_s)
        if later is None:
            return None
        pool.reserve(later[1], later[0], block_reason.duration_s)
        return later[0]

    def _code_and_sentence(self, position: int) -> tuple[str, str]:
        """Return (reason code, sentence) for the job at this position."""
        block_reason = self._block_reason(position)
        if block_reason.sentence:
            return block_reason.code, block_reason.sentence
        partition, contention_group = self._among(int(self._group[position]))
        if block_reason.request_class is None:
            ahead = self._ahead(contention_group, position)
            named = f"job {ahead.name} of {ahead.user}" if ahead is not None else "a job"
            return "Priority", f"{named} is ahead in the queue, and jobs start in strict order"
        ahead = self._ahead(partition, position)
        key = (block_reason, None if ahead is None else ahead.id)
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = self._describe_shortage(
                block_reason, block_reason.request_class, ahead
            )
        return found

    def _ahead(self, among: str | int, position: int) -> PendingJob | None:
        """Return the first waiting job of a partition or contention group, or None if it is the job at this
        position.
        """
        first = self._first.get(among, position)
        return self._pass.context.queue.jobs[self._rows[first]] if first != position else None

    def _describe_shortage(
        self, block_reason: BlockReason, request_class: RequestClass, ahead: PendingJob | None
    ) -> tuple[str, str]:
        pool = self._pass.context.pools[block_reason.reservation]
        begins = self._begins(block_reason.reservation)
        if begins:
            return "Reservation", begins
        code, sentence = self._shortage(pool, request_class)
        if code != "Priority":
            return code, sentence
        window = self._closing(pool, request_class, block_reason.duration_s)
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

    def _shortage(self, pool: ResourcePool, request_class: RequestClass) -> tuple[str, str]:
        """Return (reason code, missing resources) for this request class."""
        found = self._missing.get(id(request_class))
        if found is None:
            found = self._missing[id(request_class)] = self._look(pool, request_class)
        return found

    def _look(self, pool: ResourcePool, request_class: RequestClass) -> tuple[str, str]:
        if not request_class.gangs:
            return "BadConstraints", f"no possible placement for {request_class.wants}"
        shortages = self._of(pool)
        if shortages.fits_now(request_class):
            return "Priority", ""
        takes = shortages.usable(request_class)
        holder = self._holder(pool, takes)
        if holder:
            return "ReqNodeNotAvail", f"needs {request_class.wants}; {holder}"
        missing = f"needs {request_class.wants}; {shortages.of(request_class)}{self._set_aside(pool, takes)}"
        is_complete = np.count_nonzero(takes) >= min(gang.nodes for gang in request_class.gangs)
        return ("Resources" if is_complete else "ReqNodeNotAvail"), missing

    def _holder(self, pool: ResourcePool, takes: Mask) -> str:
        """Return a clause that names the reservation that holds the usable nodes now; "" if some usable node
        is in no reservation.
        """
        now = self._pass.context.now
        active = [
            each
            for each in self._pass.context.view.reservations
            if each.start_unix <= now < each.end_unix and not each.parts
        ]
        if not active or pool is not self._pass.context.pools[""]:
            return ""
        theirs = [(each, pool.cluster.named(each.nodes) & takes) for each in active]
        inside = [each for each, rows in theirs if rows.any()]
        if not inside or (takes & ~np.logical_or.reduce([rows for _, rows in theirs])).any():
            return ""
        first = min(inside, key=lambda each: (each.end_unix, each.name))
        what = "maintenance" if first.maintenance else "reservation"
        ends = f" for another {roughly(first.end_unix - now)}" if is_predictable(first.end_unix, now) else ""
        return f"{what} {first.name} holds {'its nodes' if len(inside) == 1 else 'some of its nodes'}{ends}"

    def _set_aside(self, pool: ResourcePool, takes: Mask) -> str:
        """Return a clause about a partial reservation on these nodes: the job's own reservation, or a
        reservation that the job cannot use; else "".
        """
        now = self._pass.context.now
        of_parts = [
            each
            for each in self._pass.context.view.reservations
            if each.parts
            and each.start_unix <= now < each.end_unix
            and (pool.cluster.named(each.nodes) & takes).any()
        ]
        own = next((each for each in of_parts if self._pass.context.pools.get(each.name) is pool), None)
        if own is not None and not own.is_everywhere:
            return f"; reservation {own.name} has {parts_text(own)}"
        others = [each for each in of_parts if each is not own]
        if not others:
            return ""
        first = min(others, key=lambda each: (each.end_unix, each.name))
        return f"; {parts_text(first)} are set aside for reservation {first.name}"

    def _closing(self, pool: ResourcePool, request_class: RequestClass, duration_s: float) -> str:
        """Return a sentence about a reservation that begins before the job could end, or "" if there is
        none.
        """
        if not self._pass.context.view.reservations:
            return ""
        placement = pool.find_now(request_class, INSTANT_S)
        names = set(pool.names(placement)) if placement else set()
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
