"""Which jobs an order's references mean: 12, 12_3, 12_[3-5]. Tasks that still wait inside their array are split off.

An order may name thousands of tasks of one array, of which thousands more are in memory: each is looked up, not looked for.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.controller.state.array_record_splitting import split_tasks
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, JobId, Ranges, count_tasks, iter_tasks, split_ranges
from warpdeck.notation.values.job_ids import may_mean, parse_job_id


class _Array:
    """The records of one submission: of single tasks by number, and of several that wait."""

    def __init__(self, members: list[Job]) -> None:
        self.by_task = {job.array_task_id: job.id for job in members if job.array_task_id is not None}
        self.folded = {job.id: None for job in members if job.is_folded_array}

    def singles(self, tasks: Ranges) -> list[JobId]:
        """The records of these tasks, by id."""
        if count_tasks(tasks) < len(self.by_task):
            found = [self.by_task[task] for task in iter_tasks(tasks) if task in self.by_task]
        else:
            numbers = split_ranges(tuple((task, task, 1) for task in sorted(self.by_task)), tasks)[0]
            found = [self.by_task[task] for task in iter_tasks(numbers)]
        return sorted(found)

    def add(self, job: Job) -> None:
        """A record that was split off, or what is left."""
        self.folded.pop(job.id, None)
        if job.is_folded_array:
            self.folded[job.id] = None
        elif job.array_task_id is not None:
            self.by_task[job.array_task_id] = job.id


class Naming:
    """Of one order."""

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self._arrays: dict[JobId, _Array] = {}

    def forget(self) -> None:
        """What was split off was taken back."""
        self._arrays.clear()

    def find(self, reference: str) -> list[Job]:
        """Of a whole array all that are unfinished (all, if none is). Raises UserError."""
        number, tasks = parse_job_id(reference)
        if tasks is None:
            members = self._txn.state.named(JobId(number))
            if not any(may_mean(reference, job.label()) for job in members):
                members = []
            named = [job for job in members if not job.is_finished] or members
        else:
            named = self._tasks(JobId(number), tasks)
        if not named:
            raise UserError(f"job {reference} is not known", "see `warpdeck queue --all`", code="not_found")
        return named

    def _tasks(self, number: JobId, tasks: Ranges) -> list[Job]:
        jobs = self._txn.state.jobs
        array = self._arrays.get(number)
        if array is None:
            array = self._arrays[number] = _Array(self._txn.state.named(number))
        found = [jobs[job_id] for job_id in array.singles(tasks)]
        for job_id in sorted(array.folded):
            part, _ = split_ranges(jobs[job_id].pending_tasks, tasks)
            if part:
                job = split_tasks(self._txn, jobs[job_id], part)
                for each in (jobs[job_id], job):
                    array.add(each)
                found.append(job)
        return sorted(found, key=lambda job: job.id)
