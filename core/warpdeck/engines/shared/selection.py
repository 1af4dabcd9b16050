"""Filters of requests for jobs. A filter that is not given selects all jobs. The functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from warpdeck.base.cluster import ALL_NODES, NORMAL_QOS
from warpdeck.model import Job, JobState, Ranges, has_task, split_ranges, state_named
from warpdeck.notation.values.job_ids import may_mean, parse_job_id
from warpdeck.protocol import requests as ask

from .visibility import Visibility

Test = Callable[[Job], bool]


class Selection:
    """The filters of one request. A job must pass all filters that are given."""

    def __init__(self, message: ask.Jobs | ask.Steps, seen: Visibility) -> None:
        """Parse the filters. Raises UserError for an invalid state or id."""
        ids = [parse_job_id(word) for word in message.ids]
        self.numbers = tuple(dict.fromkeys(number for number, _ in ids))
        states: frozenset[JobState] = frozenset()
        everything = bool(ids)
        if isinstance(message, ask.Jobs):
            states = frozenset(state_named(word) for word in message.states)
            everything = everything or message.finished or bool(states)
        self._tests = [
            *([] if everything else [_unfinished]),
            *([lambda job: job.state in states] if states else []),
            *([named_by(message.ids)] if ids else []),
            *tests_of(message),
            *([seen.sees] if seen.hides_jobs else []),
        ]

    def has(self, job: Job) -> bool:
        return all(test(job) for test in self._tests)


def _unfinished(job: Job) -> bool:
    return not job.is_finished


def tests_of(message: ask.Jobs | ask.Steps | ask.Records) -> list[Test]:
    """Return the filters that compare names."""
    found: list[Test] = []
    if users := frozenset(message.users):
        found.append(lambda job: job.user in users or str(job.uid) in users)
    if partitions := frozenset(message.partitions):
        found.append(lambda job: _in_partition(job, partitions))
    if nodes := frozenset(message.nodes):
        found.append(
            lambda job: job.allocation is not None and not nodes.isdisjoint(job.allocation.node_names())
        )
    return found if isinstance(message, ask.Steps) else [*found, *_of_jobs(message)]


def _of_jobs(message: ask.Jobs | ask.Records) -> list[Test]:
    found: list[Test] = []
    if message.names:
        found.append(_is_called(message))
    if accounts := frozenset(map(str.lower, message.accounts)):
        found.append(lambda job: job.request.account.lower() in accounts)
    if qos := frozenset(map(str.lower, message.qos)):
        found.append(lambda job: (job.request.qos or NORMAL_QOS).lower() in qos)
    if reservations := frozenset(message.reservations):
        found.append(lambda job: job.reservation in reservations)
    if licenses := frozenset(message.licenses):
        found.append(lambda job: any(name in licenses for name, _ in job.request.licenses))
    return found


def _is_called(message: ask.Jobs | ask.Records) -> Test:
    if message.names_in_any_case:
        lowered = frozenset(map(str.lower, message.names))
        return lambda job: job.request.name.lower() in lowered
    names = frozenset(message.names)
    return lambda job: job.request.name in names


def _in_partition(job: Job, wanted: Collection[str]) -> bool:
    """Return whether the job is in one of the partitions.

    A job that requested several counts for each until it starts.
    """
    asked = job.partition or job.request.partition or ALL_NODES
    return any(name in wanted for name in asked.split(","))


def named_by(words: Sequence[str]) -> Test:
    """Return a test whether any of the ids, such as 12, 12_[3-5] or 12+1, names the job or some of its tasks.

    Raises UserError for an invalid id.
    """
    ids = [parse_job_id(word) for word in words if "+" not in word]
    components = [word for word in words if "+" in word]
    return lambda job: (
        any(is_named(job, number, tasks) for number, tasks in ids)
        or any(may_mean(word, job.label()) for word in components)
    )


def is_named(job: Job, number: int, tasks: Ranges | None) -> bool:
    """Return whether "12" or "12_[3-5]" names this job, or some of its tasks."""
    if tasks is None:
        return number in (job.id, job.array_job_id)
    if number != job.array_job_id:
        return False
    if job.array_task_id is not None:
        return has_task(tasks, job.array_task_id)
    return bool(split_ranges(job.pending_tasks, tasks)[0])
