"""Find the jobs that the references of a command name: 12, 12_3, 12_[3-5].

Named tasks that still wait in the array's record are split off into separate records. A command may name
thousands of tasks of an array with thousands of further tasks in memory. Tasks are therefore found in a
table, not by a search.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.controller.state.array_record_splitting import split_tasks
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, JobId, Ranges, count_tasks, iter_tasks, split_ranges
from warpdeck.notation.values.job_ids import may_mean, parse_job_id


class _Array:
    """Records of one submission: single tasks by number, and records of several waiting tasks."""

    def __init__(self, members: list[Job]) -> None:
        self.by_task = {job.array_task_id: job.id for job in members if job.array_task_id is not None}
        self.folded = {job.id: None for job in members if job.is_folded_array}

    def singles(self, tasks: Ranges) -> list[JobId]:
        """Return the ids of the records of these single tasks, in order."""
        if count_tasks(tasks) < len(self.by_task):
            found = [self.by_task[task] for task in iter_tasks(tasks) if task in self.by_task]
        else:
            numbers = split_ranges(tuple((task, task, 1) for task in sorted(self.by_task)), tasks)[0]
            found = [self.by_task[task] for task in iter_tasks(numbers)]
        return sorted(found)

    def add(self, job: Job) -> None:
        """Add a record that was split off, or update the remaining one."""
        self.folded.pop(job.id, None)
        if job.is_folded_array:
            self.folded[job.id] = None
        elif job.array_task_id is not None:
            self.by_task[job.array_task_id] = job.id


class JobReferences:
    """Resolves the references of one command."""

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self._arrays: dict[JobId, _Array] = {}

    def forget(self) -> None:
        """Drop the cached arrays after the splitting of their records was rolled back."""
        self._arrays.clear()

    def find(self, reference: str) -> list[Job]:
        """Return the jobs of a reference.

        For a whole array, return its unfinished jobs, or all if none is unfinished. Raises UserError if there
        is no such job.
        """
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
