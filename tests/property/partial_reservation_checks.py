"""Independent invariants of plans with reservations of parts of nodes. Violations raise AssertionError."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warpdeck.model import NodeName, Share
from warpdeck.model.reservation import ReservedPart
from warpdeck.policy import Plan, PlannerView, ReservationView


class Span(NamedTuple):
    """Resources held on a node until a time. `is_new` means by a decision of this plan."""

    share: Share
    until: float
    reservation: str
    is_new: bool


def parts_are_kept(view: PlannerView, plan: Plan, now: float) -> None:
    """Check that started jobs use nothing reserved for others, and at most their own reservation's part."""
    spans = list(_spans(view, plan, now))
    for each in view.reservations:
        for part in each.parts:
            if part.node in each.nodes and each.end_unix > now:
                _part_is_kept(view, each, part, [span for span in spans if span.share.node == part.node], now)


def _spans(view: PlannerView, plan: Plan, now: float) -> Iterator[Span]:
    resumed = {each.job_id for each in plan.resumes}
    for job in view.running:
        on = job.id in resumed and job.resumes_to is not None
        ends = float("inf") if job.ends_by_unix is None else max(job.ends_by_unix, now + 1.0)
        for share in job.resumes_to.shares if on and job.resumes_to is not None else job.allocation.shares:
            yield Span(share, ends, job.reservation, on)
    closes = {each.name: each.closes_unix() for each in view.reservations}
    for start in plan.starts:
        ends = float("inf") if start.time_limit_s is None else now + start.time_limit_s
        for share in start.allocation.shares:
            yield Span(share, min(ends, closes.get(start.reservation, ends)), start.reservation, True)


def _part_is_kept(
    view: PlannerView, each: ReservationView, part: ReservedPart, spans: list[Span], now: float
) -> None:
    begin = max(now, each.start_unix)
    moments = [begin, *(span.until for span in spans if begin < span.until < each.end_unix)]
    for moment in moments:
        present = [span for span in spans if span.until > moment]
        own = [span for span in present if span.reservation == each.name]
        others = [span for span in present if span.reservation != each.name]
        for resource, count in _kept(part):
            most, used = _has(view, part.node, resource), _count(view, others, resource)
            if any(span.is_new and _count(view, [span], resource) for span in own) and not each.is_everywhere:
                assert _count(view, own, resource) <= count, f"{each.name} gives more {resource} than it has"
            before = _count(view, [span for span in others if not span.is_new], resource)
            late = [
                span
                for span in others
                if span.is_new
                and _count(view, [span], resource)
                and not _goes_first(view, span, each, moment)
            ]
            assert not late or used == before or used + max(count, _count(view, own, resource)) <= most, (
                f"{late[0]} has {resource} of {each.name}"
            )


def _goes_first(view: PlannerView, span: Span, each: ReservationView, moment: float) -> bool:
    """Return whether the other reservation has this node before this one."""
    theirs = next((one for one in view.reservations if one.name == span.reservation), None)
    if theirs is None or span.share.node not in theirs.nodes:
        return False
    in_time = theirs.start_unix <= moment < theirs.end_unix
    return in_time and _claim(theirs) < _claim(each)


def _claim(each: ReservationView) -> tuple[bool, float, str]:
    return not each.maintenance, each.start_unix, each.name


def _kept(part: ReservedPart) -> list[tuple[str, int]]:
    return [*([("cpu", part.cpus)] if part.cpus else []), *part.gpus]


def _has(view: PlannerView, name: NodeName, resource: str) -> int:
    node = next(node for node in view.nodes if node.name == name)
    if resource == "cpu":
        return node.cpus
    return sum(gpu.type.lower() == resource and not gpu.blocked for gpu in node.gpus)


def _count(view: PlannerView, spans: list[Span], resource: str) -> int:
    """Return the number of CPUs, or of GPUs of a type of which a job has at least a part."""
    if resource == "cpu":
        return sum(span.share.cpus for span in spans)
    types = {gpu.uuid: gpu.type.lower() for node in view.nodes for gpu in node.gpus if not gpu.blocked}
    return len({uuid for span in spans for uuid in span.share.gpu_uuids if types.get(uuid) == resource})
