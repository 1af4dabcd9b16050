"""Compute the times at which the clock alone changes a planner decision. Pure functions.

The planner is woken at these times and needs no polling. Examples: a begin time, the latest start with which
a deadline can be met, the begin or end of a reservation, the end of a dependency's delay, the end of the wait
for few switches (--switches), and the time after which a running job may be preempted. Every other cause is
an event.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpdeck.model import Job, Request

from .dependencies import targets
from .reservations import reservations
from .tables import StateTables


def has_deadline(request: Request) -> bool:
    """Return whether the clock alone can change the scheduling of a waiting job with this request."""
    delays = request.dependencies is not None and any(each.delay_s for each in request.dependencies.clauses)
    return (
        begins_unix(request) is not None
        or request.deadline_unix is not None
        or request.resources.max_switches is not None
        or delays
    )


def is_held(job: Job) -> bool:
    """Return whether a waiting job is held and has no deadline, so that only a command can change it."""
    return job.held and job.request.deadline_unix is None


def begins_unix(request: Request) -> float | None:
    """Return the time before which the job must not start; None if there is none.

    It is the later of two times: --begin, and the time until which the job waits for its code to be recorded.
    """
    times = [at for at in (request.begin_at_unix, request.code_due_unix) if at is not None]
    return max(times, default=None)


def waits_for_record(request: Request) -> bool:
    """Return whether the recording of the job's code may delay its start longer than --begin does."""
    due, begin = request.code_due_unix, request.begin_at_unix
    return due is not None and (begin is None or begin < due)


def next_deadline(state: StateTables, now: float) -> float | None:
    """Return the first time after `now` at which the clock changes a planner decision.

    Returns None if there is none.
    """
    return min((at for at in _deadlines(state, now) if at > now), default=None)


def _deadlines(state: StateTables, now: float) -> Iterator[float]:
    for job_id in state.index.timed:
        yield from _of_waiting(state, state.jobs[job_id])
    if not state.has_to_plan:
        return
    for each in reservations(state, now):
        if each.float_s is None:
            yield from (each.start_unix, each.end_unix)
    yield from _exempt_until(state)


def _of_waiting(state: StateTables, job: Job) -> Iterator[float]:
    request = job.request
    begins = begins_unix(request)
    if begins is not None:
        yield begins
    if request.deadline_unix is not None:
        # The job ends as soon as the time to its deadline is shorter than its run time.
        yield request.deadline_unix - (request.time_min_s or request.time_limit_s or 1) + AT_ONCE_S
    wait_s = request.resources.switches_wait_s
    if request.resources.max_switches is not None and wait_s is not None:
        yield job.eligible_at_unix + wait_s
    for clause in request.dependencies.clauses if request.dependencies is not None else ():
        for other in targets(clause, state.named) if clause.delay_s else ():
            begun = other.start_at_unix or other.end_at_unix
            if begun is not None:
                yield begun + clause.delay_s


AT_ONCE_S = 0.001
"""Delay in seconds after the latest time at which a deadline can still be met. The job is checked after this
delay.
"""


def _exempt_until(state: StateTables) -> Iterator[float]:
    """Yield the times at which running jobs lose their exemption from preemption."""
    exempt = {qos.name: qos.preempt_exempt_s for qos in state.site.qos}
    least_s = state.site.settings.preempt_exempt_s
    if not least_s and not any(exempt.values()):
        return
    for job_id in state.index.active:
        job = state.jobs[job_id]
        if job.start_at_unix is not None:
            yield job.start_at_unix + max(least_s, exempt.get(job.request.qos, 0))
