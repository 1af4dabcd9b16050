"""Decide whether a submission may enter the queue.

The rules are checked each time. A second check finds requests that even the empty cluster could never hold.
Its result depends only on the nodes and the rules, and takes long to compute on a large cluster. It is
therefore cached for equal requests until the nodes or the rules change.
"""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Job, count_tasks
from warpdeck.policy import AdmissionRefusal, PendingJob, PlannerView, admit, admit_hetjob

from .accounting import key_of
from .state import State
from .view import Namesakes, pending_job, rules_view, with_components

NEVER_STARTS = "this request can never start: "
"""Beginning of each refusal message."""


def check(state: State, job: Job, *, now: float, is_queued: bool = False) -> None:
    """Raise UserError if the site's rules forbid the job or if the cluster can never hold it.

    With `is_queued`, the job is already in the queue and does not count against the limits on submitted jobs.
    """
    requested = pending_job(state, job, Namesakes(state), now=now)
    view, settings = rules_view(state), state.site.settings
    if is_queued:
        view = _without(view, job)
    refusal = admit(requested, view, settings, must_fit=False) or _unplaceable_refusal(state, requested, view)
    if refusal is not None:
        raise _refused(refusal)


def check_hetjob(state: State, leader: Job, *, now: float) -> None:
    """Raise UserError if the components of a heterogeneous job could never start at the same time.

    Each component may be acceptable by itself. Nothing is checked while the size of some node is not known.
    """
    if not state.nodes or not all(node.cpus for node in state.nodes.values()):
        return
    names = Namesakes(state)
    requested = with_components(state, pending_job(state, leader, names, now=now), names, now=now)
    view = msgspec.structs.replace(rules_view(state), nodes=state.view_cache.nodes(state))
    refusal = admit_hetjob(requested, view, state.site.settings)
    if refusal is not None:
        raise _refused(refusal)


def _unplaceable_refusal(state: State, requested: PendingJob, view: PlannerView) -> AdmissionRefusal | None:
    nodes, settings = tuple(state.nodes.values()), state.site.settings
    if not nodes or not all(node.cpus for node in nodes):
        return None  # The request might fit on a node of unknown size.
    kept, key = state.admitted.answers(nodes, settings), _cache_key(requested)
    if key not in kept:
        whole = msgspec.structs.replace(view, nodes=state.view_cache.nodes(state))
        kept[key] = admit(requested, whole, settings)
    return kept[key]


def _refused(refusal: AdmissionRefusal) -> UserError:
    return UserError(
        f"{NEVER_STARTS}{refusal.sentence}",
        refusal.hint,
        code=refusal.code,
        details={"unknown": refusal.unknown} if refusal.unknown else None,
    )


def _without(view: PlannerView, job: Job) -> PlannerView:
    """Return the view without the job in the counts of submitted jobs."""
    key = key_of(job)
    rest = view.submitted.get(key, 0) - max(1, count_tasks(job.pending_tasks))
    return msgspec.structs.replace(view, submitted={**view.submitted, key: max(0, rest)})


def _cache_key(requested: PendingJob) -> tuple[object, ...]:
    """Return the fields of a request that determine whether the empty cluster can hold it.

    They include the fields that select the limits for the request.
    """
    return (
        requested.resources,
        requested.partition,
        requested.user,
        requested.account,
        requested.qos,
        requested.time_limit_s,
        requested.unlimited,
        requested.time_min_s,
        requested.deadline_unix,
        requested.licenses,
    )
