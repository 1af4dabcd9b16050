"""When the clock alone changes what the planner would say: it is woken then, and need not look all the time. Pure.

A begin time comes, a deadline cannot be kept any more, a reservation begins or ends, a dependency's delay is over, few
switches were waited for long enough, a running job may be preempted from now on. All else that matters is an event.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpdeck.model import Job, Request

from .dependencies import targets
from .reservations import reservations
from .tables import Tables


def minds_the_clock(request: Request) -> bool:
    """Whether a waiting job with this request has moments of its own."""
    delays = request.dependencies is not None and any(each.delay_s for each in request.dependencies.clauses)
    return (
        begins_unix(request) is not None
        or request.deadline_unix is not None
        or request.resources.max_switches is not None
        or delays
    )


def rests(job: Job) -> bool:
    """Whether a waiting job is held, and nothing but its people's word changes that: no deadline either."""
    return job.held and job.request.deadline_unix is None


def begins_unix(request: Request) -> float | None:
    """Before which the job does not start: --begin, and until its code is recorded."""
    times = [at for at in (request.begin_at_unix, request.code_due_unix) if at is not None]
    return max(times, default=None)


def waits_for_record(request: Request) -> bool:
    """Whether it is the record of its code that the job might wait for longest, and not its own begin."""
    due, begin = request.code_due_unix, request.begin_at_unix
    return due is not None and (begin is None or begin < due)


def next_moment(state: Tables, now: float) -> float | None:
    """The first of all moments after now; None if there is none."""
    return min((at for at in _moments(state, now) if at > now), default=None)


def _moments(state: Tables, now: float) -> Iterator[float]:
    for job_id in state.index.timed:
        yield from _of_waiting(state, state.jobs[job_id])
    if not state.has_to_plan:
        return
    for each in reservations(state, now):
        if each.float_s is None:
            yield from (each.start_unix, each.end_unix)
    yield from _exempt_until(state)


def _of_waiting(state: Tables, job: Job) -> Iterator[float]:
    request = job.request
    begins = begins_unix(request)
    if begins is not None:
        yield begins
    if request.deadline_unix is not None:
        # As soon as the rest of the time is less than it needs, it ends.
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
"""The first moment after one that still was in time."""


def _exempt_until(state: Tables) -> Iterator[float]:
    """When running jobs lose their exemption from preemption, where the site has any."""
    exempt = {qos.name: qos.preempt_exempt_s for qos in state.site.qos}
    least_s = state.site.settings.preempt_exempt_s
    if not least_s and not any(exempt.values()):
        return
    for job_id in state.index.active:
        job = state.jobs[job_id]
        if job.start_at_unix is not None:
            yield job.start_at_unix + max(least_s, exempt.get(job.request.qos, 0))
