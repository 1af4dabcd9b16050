"""Admission of requests: checks them against the rules of the site and the size of the cluster.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

import msgspec

from warpdeck.model import Allocation, NodeMinimum, Resources, count_tasks
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import Limits, PartitionView, QosView, Tres
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.limits.access import in_partition, partition_names, partition_refusal, time_limit
from warpdeck.policy.limits.inherited import effective
from warpdeck.policy.limits.limits import LimitUsage
from warpdeck.policy.placement.pending_reason import GIB, describe_need
from warpdeck.policy.placement.placement import allocate, place_now
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Cluster, meets_minimum, traits_of
from warpdeck.policy.resources.features import parse_constraint
from warpdeck.policy.resources.gpus import GpuTable
from warpdeck.policy.resources.timeline import Timeline
from warpdeck.policy.resources.tres import requested_per_node, requested_tres

from .plan import plan

Key = tuple[str, str, str]
"""The key of a count of submitted jobs: (account, user, QoS)."""


class AdmissionRefusal(msgspec.Struct, frozen=True):
    """The rejection of a request: a reason code, a sentence, and a hint. `unknown` is the requested name that
    does not exist, if any.
    """

    code: str
    sentence: str
    hint: str = "see `warpdeck node ls` for what there is"
    unknown: str = ""


def admit(
    job: PendingJob, view: PlannerView, settings: PlannerSettings, *, must_fit: bool = True
) -> AdmissionRefusal | None:
    """Return None if the job may be queued, or else a refusal. `view` contains the jobs already in the queue.

    Without `must_fit`, only the rules are checked, not the sizes of nodes. Use this while some sizes are
    still unknown.
    """
    unknown = _unknown(job.resources, view) if must_fit else None
    if unknown is not None:
        return unknown
    names = partition_names(job.partition, settings)
    refusals: list[AdmissionRefusal] = []
    if view.partitions:
        if not names:
            return AdmissionRefusal(
                "PartitionConfig",
                "no partition is given and there is no default partition",
                "give one with --partition",
            )
        parts = {part.name: part for part in view.partitions}
        for name in names:
            if name not in parts:
                known = ", ".join(each.name for each in view.partitions[:8])
                sentence = f"there is no partition {name}"
                return AdmissionRefusal("PartitionConfig", sentence, f"choose one of: {known}", unknown=name)
        for name in names:
            refusal = _admit_to(job, parts[name], view, settings, must_fit=must_fit)
            if refusal is None:
                break
            refusals.append(refusal)
        else:
            return refusals[0]
    else:
        refusal = _refusal_when_alone(job, None, view, settings, must_fit=must_fit)
        if refusal is not None:
            return refusal
    return _licenses(job, view) or _accounts(job, view, settings) or _submit_limits(job, view, settings)


def _admit_to(
    job: PendingJob, part: PartitionView, view: PlannerView, settings: PlannerSettings, *, must_fit: bool
) -> AdmissionRefusal | None:
    if part.state in ("DRAIN", "INACTIVE"):
        return AdmissionRefusal(
            "PartitionInactive",
            f"partition {part.name} accepts no jobs now ({part.state})",
            "try another partition",
        )
    up = msgspec.structs.replace(part, state="UP")
    limit_s = time_limit(job, part, settings, 0.0)
    refusal = partition_refusal(job, up, limit_s, any_time=_lifts(job, view))
    if refusal is not None:
        return AdmissionRefusal(refusal[0], refusal[1], "request less, or use another partition")
    return _refusal_when_alone(in_partition(job, part), part, view, settings, must_fit=must_fit)


def _refusal_when_alone(
    job: PendingJob,
    part: PartitionView | None,
    view: PlannerView,
    settings: PlannerSettings,
    *,
    must_fit: bool,
) -> AdmissionRefusal | None:
    """Return a refusal if the job could not start here even if it were the only job that ever existed."""
    limit_usage = LimitUsage(_unused(view), 0.0, settings)
    most = limit_usage.most_per_node(job)
    allocation = (
        _on_empty_cluster(job.resources, part, view, settings, most_per_node=most) if must_fit else None
    )
    if isinstance(allocation, AdmissionRefusal):
        return allocation
    if not (settings.enforce_limits and (view.qos or view.accounts or view.users)):
        return None
    if allocation is None:
        default = settings.default_mem_per_cpu_bytes
        tres = requested_tres(job.resources, settings.billing_weights, default_mem_per_cpu=default)
        per_node = requested_per_node(job.resources, default_mem_per_cpu=default)
    else:
        tres, per_node = limit_usage.tres_of(job, allocation), limit_usage.per_node_of(allocation)
    over = limit_usage.check(job, tres, time_limit(job, part, settings, 0.0), per_node=per_node)
    return None if over is None else AdmissionRefusal(over.code, over.sentence, "request less")


def _unused(view: PlannerView) -> PlannerView:
    """Return the view with no running jobs and no past usage."""
    return msgspec.structs.replace(
        view,
        running=(),
        qos=tuple(msgspec.structs.replace(qos, usage={}) for qos in view.qos),
        accounts=tuple(msgspec.structs.replace(account, tres_usage={}) for account in view.accounts),
        users=tuple(msgspec.structs.replace(user, tres_usage={}) for user in view.users),
    )


def admit_hetjob(leader: PendingJob, view: PlannerView, settings: PlannerSettings) -> AdmissionRefusal | None:
    """Return a refusal if the components of a heterogeneous job could never start together, although each
    could start alone.
    """
    parts = [
        msgspec.structs.replace(
            job,
            components=(),
            held=False,
            waits_for="",
            never="",
            begin_at_unix=None,
            deadline_unix=None,
            reservation="",
        )
        for job in (leader, *leader.components)
    ]
    first = msgspec.structs.replace(parts[0], components=tuple(parts[1:]))
    healthy = [
        msgspec.structs.replace(
            node, unavailable="", gpus=tuple(msgspec.structs.replace(gpu, blocked="") for gpu in node.gpus)
        )
        for node in view.nodes
    ]
    up = tuple(msgspec.structs.replace(part, state="UP") for part in view.partitions)
    empty = msgspec.structs.replace(
        _unused(view),
        nodes=tuple(healthy),
        partitions=up,
        reservations=(),
        pending=(first,),
        hetjob_leaders=(first.id,),
    )
    made = plan(empty, 0.0, settings)
    if made.starts:
        return None
    reason = made.pending_reasons[first.id]
    hint = "request less, or submit the components as separate jobs"
    return AdmissionRefusal(
        "BadConstraints" if reason.code == "Resources" else reason.code, reason.sentence, hint
    )


def _lifts(job: PendingJob, view: PlannerView) -> bool:
    return any(qos.overrides_partition for qos in view.qos if qos.name == job.qos)


def never_fits(
    requested: Resources, part: PartitionView | None, view: PlannerView, settings: PlannerSettings
) -> AdmissionRefusal | None:
    """Return a refusal if even the empty and healthy cluster cannot satisfy the request."""
    unknown = _unknown(requested, view)
    allocation = unknown or _on_empty_cluster(requested, part, view, settings, most_per_node={})
    return allocation if isinstance(allocation, AdmissionRefusal) else None


def _unknown(requested: Resources, view: PlannerView) -> AdmissionRefusal | None:
    """Return a refusal for unknown nodes or features, which no partition can satisfy."""
    if requested.nodelist or requested.exclude:
        known = {node.name for node in view.nodes}
        unknown = [name for name in (*requested.nodelist, *requested.exclude) if name not in known]
        if unknown:
            return AdmissionRefusal("InvalidNode", f"there is no node {', '.join(unknown[:8])}")
        both = [name for name in requested.nodelist if name in requested.exclude]
        if both:
            return AdmissionRefusal(
                "InvalidNode",
                f"{', '.join(both[:8])} is both required (--nodelist) and excluded (--exclude)",
                "remove it from one of the two lists",
            )
    if requested.prefer and not _is_met(requested.prefer, view):
        return AdmissionRefusal(
            "InvalidPrefer",
            f"no node has {requested.prefer}",
            "remove --prefer, or use a feature that a node has",
        )
    return None


def _too_small(least: NodeMinimum, view: PlannerView) -> AdmissionRefusal | None:
    """Return a refusal if no node at all is as large as --tmp or --extra-node-info require."""
    most = max((node.tmp_disk_bytes for node in view.nodes), default=0)
    if least.tmp_disk_bytes and least.tmp_disk_bytes > most:
        sentence = f"the job requests {least.tmp_disk_bytes >> 20} MiB of temporary disk; the largest is {most >> 20} MiB"
        return AdmissionRefusal("InvalidTmpDisk", sentence)
    layout = msgspec.structs.replace(least, tmp_disk_bytes=None)
    if not any(meets_minimum(node, layout) for node in view.nodes):
        requested = ":".join(str(count or "*") for count in (least.sockets, least.cores, least.threads))
        return AdmissionRefusal(
            "InvalidTopology", f"no node has {requested} (sockets:cores per socket:threads per core)"
        )
    return None


def _is_met(constraint: str, view: PlannerView) -> bool:
    """Return whether any node satisfies the constraint."""
    tests = parse_constraint(constraint)
    return any(test(traits_of(node)) for node in view.nodes for test in tests)


def _on_empty_cluster(
    requested: Resources,
    part: PartitionView | None,
    view: PlannerView,
    settings: PlannerSettings,
    *,
    most_per_node: Tres,
) -> Allocation | AdmissionRefusal:
    """Return the allocation that the request would get on an empty and healthy cluster, or a refusal."""
    cluster = Cluster(view.nodes, as_if_healthy=True)
    request_class = RequestClass(
        cluster,
        requested,
        part,
        default_mem_per_cpu_bytes=settings.default_mem_per_cpu_bytes,
    ).spread(most_per_node)
    timeline = Timeline(cluster, 0.0)
    placement = place_now(timeline, request_class, 1.0)
    if placement is not None:
        return allocate(timeline, GpuTable(cluster, {}, 0.0), placement, 1.0)
    where = f" in partition {part.name}" if part is not None else ""
    small = _too_small(requested.node_minimum, view)
    if small is not None:
        return small
    if requested.constraint and not _is_met(requested.constraint, view):
        return AdmissionRefusal("InvalidFeature", f"no node has {requested.constraint}")
    usable = max(
        int(mask.sum()) for mask in request_class.masks
    )  # All nodes of a job satisfy the same alternative.
    if 0 < usable < requested.nodes_min:
        with_it = f" with {requested.constraint}" if requested.constraint else ""
        sentence = f"the job requests {requested.nodes_min} nodes; there are {usable}{with_it}{where}"
        return AdmissionRefusal("BadConstraints", sentence)
    return AdmissionRefusal(
        _scarce(requested, view),
        f"the job requests {describe_need(requested)}; {_largest(cluster, request_class)}{where}",
    )


def _scarce(requested: Resources, view: PlannerView) -> str:
    """Return the reason code for a request that is too large for every node of the site.

    Slurm reports CPUs first, then memory. Only the amounts that a node must have in any layout count.
    """
    cpus = max(requested.cpus_per_task * (requested.tasks_per_node or 1), requested.cpus_per_node_min or 0)
    if cpus > max((node.cpus for node in view.nodes), default=0):
        return "InvalidCPUs"
    mem_bytes = max(requested.mem_per_node_bytes or 0, requested.mem_per_cpu_bytes or 0)
    return (
        "InvalidMemory"
        if mem_bytes > max((node.mem_bytes for node in view.nodes), default=0)
        else "BadConstraints"
    )


def _largest(cluster: Cluster, request_class: RequestClass) -> str:
    usable = request_class.usable()
    kind = request_class.requested.gpus.type.lower()
    column = cluster.type_columns.get(kind, GPUS)
    if not usable.any():
        return f"no node has {'GPUs of type ' + kind if kind else 'what the job requests'}"
    whole = cluster.capacity[:, usable]
    typed = f" of type {kind}" if kind else ""
    mem = whole[MEM].max() / GIB
    return (
        f"the largest node has {whole[column].max()} GPUs{typed}, {whole[CPUS].max()} CPUs and {mem:.0f} GiB"
    )


def _licenses(job: PendingJob, view: PlannerView) -> AdmissionRefusal | None:
    licenses = dict(view.licenses)
    for name, count in job.licenses:
        if count > licenses.get(name, 0):
            return AdmissionRefusal(
                "Licenses",
                f"the job requests {count} licenses of {name}; there are {licenses.get(name, 0)}",
                "request fewer",
            )
    return None


def _accounts(job: PendingJob, view: PlannerView, settings: PlannerSettings) -> AdmissionRefusal | None:
    """Return a refusal for an unknown QoS or account, for a user outside the account, or for a QoS that is
    not allowed.
    """
    if view.qos and job.qos and job.qos not in {qos.name for qos in view.qos}:
        known = ", ".join(qos.name for qos in view.qos[:8])
        return AdmissionRefusal("InvalidQOS", f"there is no QoS {job.qos}", f"choose one of: {known}")
    if not view.accounts:
        return None
    if not job.account:
        if not settings.enforce_limits:
            return None
        own = sorted(each.account for each in view.users if each.user == job.user)
        hint = (
            f"choose one with --account: {', '.join(own[:8])}"
            if own
            else "ask an admin to add you to an account"
        )
        return AdmissionRefusal(
            "InvalidAccount", f"no account is given, and {job.user} has no default account", hint
        )
    account = next((each for each in view.accounts if each.name == job.account), None)
    if account is None:
        known = ", ".join(each.name for each in view.accounts[:8])
        return AdmissionRefusal(
            "InvalidAccount", f"there is no account {job.account}", f"choose one of: {known}"
        )
    place = next((each for each in view.users if (each.account, each.user) == (job.account, job.user)), None)
    if settings.enforce_limits and place is None:
        return AdmissionRefusal(
            "InvalidAccount",
            f"{job.user} is not in account {account.name}",
            "ask an admin to add you, or use another account",
        )
    allowed = account.qos if place is None or place.qos is None else place.qos
    subject = "" if allowed == account.qos else f"{job.user} in "
    if allowed is not None and job.qos and job.qos not in allowed:
        hint = f"use another QoS: {', '.join(sorted(allowed)[:8])}" if allowed else "remove --qos"
        return AdmissionRefusal(
            "InvalidQOS", f"{subject}account {account.name} may not use QoS {job.qos}", hint
        )
    return None


class _Scope(NamedTuple):
    """A set of limits: the prefix of its reason codes, a name for messages, and a test whether a queued job
    counts in it.
    """

    prefix: str
    subject: str
    limits: Limits
    has: Callable[[Key], bool]


def _submit_limits(job: PendingJob, view: PlannerView, settings: PlannerSettings) -> AdmissionRefusal | None:
    """Check the limits on the number of submitted jobs."""
    if not settings.enforce_limits:
        return None
    for scope in _scopes(job, view):
        over = _too_many(job, view, scope)
        if over is not None:
            return over
    return None


def _scopes(job: PendingJob, view: PlannerView) -> Iterator[_Scope]:
    """Iterate over the limits that apply to the job."""
    qos: QosView | None = next((each for each in view.qos if each.name == job.qos), None)
    if qos is not None:
        yield _Scope("QOS", f"QoS {qos.name}", qos.limits, lambda key: key[2] == job.qos)
    own: Key = (job.account, job.user, "")
    levels = [
        _Scope(
            "Assoc",
            f"user {user.user} in account {user.account}",
            user.limits,
            lambda key: key[:2] == own[:2],
        )
        for user in view.users
        if (user.account, user.user) == own[:2]
    ]
    parents = {each.name: each.parent for each in view.accounts}
    limits = {each.name: each.limits for each in view.accounts}
    for name in _chain(job.account, parents):
        below = frozenset(each for each in parents if name in _chain(each, parents))
        levels.append(_Scope("Assoc", f"account {name}", limits[name], functools.partial(_is_in, below)))
    for level, holds in zip(levels, effective(level.limits for level in levels), strict=True):
        yield level._replace(limits=holds)


def _is_in(accounts: Collection[str], key: Key) -> bool:
    return key[0] in accounts


def _chain(account: str, parents: Mapping[str, str]) -> list[str]:
    """Return the names of the account and its parents, nearest first."""
    found: list[str] = []
    while account in parents and account not in found:
        found.append(account)
        account = parents[account]
    return found


def _too_many(job: PendingJob, view: PlannerView, scope: _Scope) -> AdmissionRefusal | None:
    """Check the limits of one scope on the number of queued jobs: in total, of one user, and of one account."""
    limits, prefix = scope.limits, scope.prefix
    of_user = "QOSMaxSubmitJobPerUserLimit" if prefix == "QOS" else "AssocMaxSubmitJobLimit"
    is_own = scope.has if prefix == "QOS" else functools.partial(_is_in, {job.account})
    for most, counted_for, code, counts in (
        (limits.grp_submit, "in total", f"{prefix}GrpSubmitJobsLimit", scope.has),
        (
            limits.max_submit_per_user,
            f"for {job.user}",
            of_user,
            lambda key: key[1] == job.user and is_own(key),
        ),
        (
            limits.max_submit_per_account,
            f"for account {job.account}",
            f"{prefix}MaxSubmitJobPerAccountLimit",
            lambda key: scope.has(key) and key[0] == job.account,
        ),
    ):
        if most is None:
            continue
        known = sum(count for key, count in view.submitted.items() if counts(key))
        if known + max(1, count_tasks(job.tasks)) > most:
            sentence = f"limit of {scope.subject}: {most} jobs in the queue {counted_for}; there are {known}"
            return AdmissionRefusal(code, sentence, "cancel some jobs, or submit later")
    return None
