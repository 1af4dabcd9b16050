"""The one decision function. Pure: everything it may look at is in its arguments.

One mechanism serves every policy. A timeline holds what is free on each node from now on. Waiting jobs come in queue
order; a job starts if it fits from now until its limit. One that does not is blocked: the first `reservations` of them
(all, if conservative) get the earliest interval that fits, and it is taken from the timeline, so that nobody behind can
delay them (EASY backfill; Lifka 1995; Mu'alem and Feitelson 2001). What remains may start wherever the timeline allows,
in order of priority or shortest first. Within a pass free resources only shrink: what failed once fails for every equal
request that runs as long or longer.

A pass is made for every event, and most of what it looks at has not changed: a memory of the last pass makes it quick.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np

from warpdeck.model import JobId, Why
from warpdeck.policy.cache.pass_cache import Memory
from warpdeck.policy.cache.waiting_queue import Queue
from warpdeck.policy.explain.explain import explain
from warpdeck.policy.input.decisions import End, Plan
from warpdeck.policy.input.settings import Settings
from warpdeck.policy.input.view import PendingJob, View
from warpdeck.policy.placement.pending_reason import before_its_time
from warpdeck.policy.priority.priority import Ranking, in_order
from warpdeck.policy.priority.queue_order import turns
from warpdeck.policy.resources.cluster import Ints, Mask
from warpdeck.policy.scheduler.resuming import resumptions
from warpdeck.policy.scheduler.rounds import first_round, second_round
from warpdeck.policy.scheduler.scheduling_pass import Pass


def plan(
    view: View,
    now: float,
    settings: Settings,
    *,
    memory: Memory | None = None,
    tell: Collection[JobId] | None = None,
) -> Plan:
    """Which jobs start now and where, and for every other waiting job why not and when.

    `memory`, given to pass after pass, makes them quicker and changes nothing. `tell`: only these jobs are told something, and
    no expected start is worked out but those that are reserved; what is decided is the same.
    """
    decided = decide(view, now, settings, memory=memory)
    current, table = decided.current, decided.current.queue.table
    told = None if tell is None else np.isin(table["id"], list(tell))
    early = {job_id: why for job_id, why in decided.whys.items() if tell is None or job_id in tell}
    whys = explain(
        current,
        decided.order,
        in_line=decided.in_line,
        forecasts=None if told is None else 0,
        told=None if told is None else told[decided.order],
    )
    whys |= early
    ids, priorities, held = table["id"], decided.priorities, table.of(np.flatnonzero(table["is_held"]))
    if told is not None:
        ids, priorities = ids[told], priorities[told]
        held = table.of(np.flatnonzero(table["is_held"] & told))
    whys |= dict(zip(held["id"].tolist(), held["why_held"].tolist(), strict=True))
    ranks = dict(zip(ids.tolist(), priorities.tolist(), strict=True))
    _tell_components(view, whys, ranks)
    return Plan(
        starts=tuple(current.starts),
        reserves=tuple(current.reserves),
        preempts=tuple(current.preempts),
        resumes=tuple(current.resumes),
        ends=tuple(decided.ends),
        whys=whys,
        priorities=ranks,
        more=current.stopped,
    )


def _tell_components(view: View, whys: dict[JobId, Why], priorities: dict[JobId, int]) -> None:
    """Components wait for what their leader waits for, and in its place in the queue."""
    leaders = set(view.leaders)
    for leader in (job for job in view.pending if job.id in leaders) if leaders else ():
        for job in leader.components:
            if leader.id in whys:
                held = leader.held and not job.held
                whys[job.id] = _waits_for_its_leader(leader) if held else whys[leader.id]
            if leader.id in priorities:
                priorities[job.id] = priorities[leader.id]


def _waits_for_its_leader(leader: PendingJob) -> Why:
    return Why(code="None", sentence=f"starts with {leader.name}, which is held")


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A pass whose decisions are made, before they are put into words. Rows are those of the pass's queue."""

    current: Pass
    order: Ints
    """The rows of the jobs that could start as far as they themselves go, in the order of their rights."""
    in_line: Ints
    """Rows of those that were not asked because jobs start in strict order."""
    ends: list[End]
    whys: dict[JobId, Why]
    """Of jobs that could not start in any case, but for those that are held: what they are told never changes."""
    priorities: Ints


def decide(
    view: View,
    now: float,
    settings: Settings,
    *,
    memory: Memory | None = None,
    without_place: JobId | None = None,
) -> Decided:
    """All decisions of a pass. The job `without_place` gets no reservation, so that changes of it can be tried."""
    memory = memory or Memory()
    view = memory.follow(view, settings)
    current = Pass(memory, view, now, without_place=without_place)
    priorities = Ranking(view, now, settings).of_all(memory.queue)
    rows, ends, whys = _ready(memory.queue, now)
    table = memory.queue.table.of(rows)
    waiting = turns(table, memory.queue, memory.ground, view, now)
    current.protect(min(waiting.late_count, settings.overdue_reservations))
    has_room: Mask = table["room_until_unix"] > now
    keys = in_order(
        table, memory.queue, view, has_room=has_room, priorities=priorities[rows], turns=waiting.keys
    )
    order = rows[keys]
    behind = first_round(current, order)
    current.resumes += resumptions(current)
    if settings.backfill == "none":
        in_line = behind
    else:
        in_line = behind[:0]
        if settings.backfill_order == "shortest":
            likely = memory.queue.table["likely_s"][behind].copy()
            likely[
                memory.queue.table["room_until_unix"][behind] > now
            ] = -1.0  # before all, as in the first round
            behind = behind[np.argsort(likely, kind="stable")]
        second_round(current, behind)
    return Decided(current=current, order=order, in_line=in_line, ends=ends, whys=whys, priorities=priorities)


def _ready(queue: Queue, now: float) -> tuple[Ints, list[End], dict[JobId, Why]]:
    """The rows of jobs that could start as far as they themselves go; those that end; the reasons of others that are not held."""
    ready = queue.table["is_ready"].copy()
    ends: list[End] = []
    whys: dict[JobId, Why] = {}
    for row in np.flatnonzero(~ready & ~queue.table["is_held"]).tolist():
        job = queue.jobs[row]
        reason = before_its_time(job, now)
        end = _ends(job, reason, now, queue.settings)
        if end is not None:
            ends.append(end)
        elif reason is not None:
            whys[job.id] = reason
        else:
            ready[row] = True
    return np.flatnonzero(ready), ends, whys


def _ends(job: PendingJob, reason: Why | None, now: float, settings: Settings) -> End | None:
    kill = settings.kill_invalid_dependency if job.kill_invalid is None else job.kill_invalid
    if reason is not None and reason.code == "DependencyNeverSatisfied" and kill:
        return End(job_id=job.id, state="CANCELLED", code=reason.code, sentence=job.never)
    if job.deadline_unix is None:
        return None
    least = job.time_min_s or job.time_limit_s or 1
    if now + least <= job.deadline_unix:
        return None
    sentence = "it cannot end before its deadline any more"
    return End(job_id=job.id, state="DEADLINE", code="DeadLine", sentence=sentence)
