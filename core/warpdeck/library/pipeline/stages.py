"""The stages of a pipeline as its jobs show them, and the decision which stages to submit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow

from .pipeline_file import Pipeline

WORD = "pipeline"
"""The first word of the comment of a stage's job."""


class StageState(StrEnum):
    """The state of a stage. OUTDATED: its last job used another definition, or results that were made again since."""

    MISSING = "missing"
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    OUTDATED = "outdated"


class Attempt(NamedTuple):
    """The last job of a stage."""

    number: int
    digest: str
    after: Mapping[str, int]
    """The attempts of the stages before it whose results it uses."""
    jobs: tuple[JobRow, ...]
    """The job, or the tasks of the array."""

    @property
    def job_id(self) -> int:
        return self.jobs[0].array_job_id

    @property
    def state(self) -> StageState:
        """The state of these jobs alone."""
        ongoing = [job for job in self.jobs if job.end is None]
        if ongoing:
            return StageState.WAITING if all(job.start is None for job in self.jobs) else StageState.RUNNING
        if all(job.state == "COMPLETED" for job in self.jobs):
            return StageState.COMPLETE
        return StageState.FAILED


Attempts = Mapping[str, Attempt]
"""Stage -> its last job. Stages that were never submitted are missing."""


class Submission(NamedTuple):
    """A stage to submit. `after` are the attempts of the stages on which it depends."""

    stage: str
    attempt: int
    after: Mapping[str, int]


class Plan(NamedTuple):
    """The next actions of a driver: it cancels these jobs, and submits these stages in this order."""

    cancel: tuple[int, ...]
    submit: tuple[Submission, ...]


def decide(pipeline: Pipeline, attempts: Attempts, *, again: Collection[str] = ()) -> Plan:
    """Return the next actions.

    A stage is submitted if it was never submitted, has failed, has another definition than its last job, is named in `again`, or
    depends on a stage that was or is submitted again. The last job of such a stage is canceled if it waits. Raises UserError if it
    runs.
    """
    cancel: list[int] = []
    submit: dict[str, Submission] = {}
    numbers = {stage: attempt.number for stage, attempt in attempts.items()}
    for name, stage in pipeline.stages.items():
        last = attempts.get(name)
        after = {each: numbers[each] for each in stage.after}
        is_kept = (
            last is not None
            and name not in again
            and last.state != StageState.FAILED
            and not _is_outdated(last, stage.digest, after)
        )
        if is_kept:
            continue
        if last is not None and last.state == StageState.RUNNING:
            raise UserError(
                f"the stage {name} has to run again, but its job {last.job_id} still runs",
                f"wait for its end, or cancel it: warpdeck cancel {last.job_id}",
            )
        if last is not None and last.state == StageState.WAITING:
            cancel.append(last.job_id)
        numbers[name] = 1 if last is None else last.number + 1
        submit[name] = Submission(name, numbers[name], after)
    return Plan(tuple(cancel), tuple(submit.values()))


def states_of(pipeline: Pipeline, attempts: Attempts) -> dict[str, StageState]:
    """Return the state of each stage."""
    states: dict[str, StageState] = {}
    for name, stage in pipeline.stages.items():
        last = attempts.get(name)
        if last is None:
            states[name] = StageState.MISSING
            continue
        after = {each: attempts[each].number for each in stage.after if each in attempts}
        uses_outdated = any(states[each] == StageState.OUTDATED for each in stage.after)
        is_outdated = uses_outdated or _is_outdated(last, stage.digest, after)
        states[name] = StageState.OUTDATED if is_outdated else last.state
    return states


def _is_outdated(last: Attempt, digest: str, after: Mapping[str, int]) -> bool:
    return last.digest != digest or dict(last.after) != dict(after)


def comment_of(pipeline: Pipeline, submission: Submission) -> str:
    """Return the comment by which a stage's job is found again."""
    facts = {
        "attempt": submission.attempt,
        "digest": pipeline.stages[submission.stage].digest,
        "after": submission.after,
    }
    return f"{WORD} {pipeline.key} {submission.stage} {json.dumps(facts)}"


def attempts_of(pipeline: Pipeline, rows: Iterable[JobRow]) -> dict[str, Attempt]:
    """Return the last job of each stage among these jobs. Jobs that belong to no stage are left out."""
    jobs: dict[tuple[str, int], list[JobRow]] = defaultdict(list)
    facts: dict[tuple[str, int], tuple[str, dict[str, int]]] = {}
    for row in rows:
        read = _read_comment(pipeline, row.comment)
        if read is not None:
            stage, number, digest, after = read
            jobs[stage, number].append(row)
            facts[stage, number] = digest, after
    found: dict[str, Attempt] = {}
    for (stage, number), of_attempt in sorted(jobs.items()):
        found[stage] = Attempt(number, *facts[stage, number], tuple(of_attempt))
    return found


def _read_comment(pipeline: Pipeline, comment: str) -> tuple[str, int, str, dict[str, int]] | None:
    """Return stage, number, digest and predecessors, or None if a user's own comment only resembles those of a pipeline."""
    word, _, rest = comment.partition(" ")
    key, _, rest = rest.partition(" ")
    stage, _, text = rest.partition(" ")
    if word != WORD or key != pipeline.key or stage not in pipeline.stages:
        return None
    try:
        facts = json.loads(text)
        after = {str(name): int(number) for name, number in facts["after"].items()}
        return stage, int(facts["attempt"]), str(facts["digest"]), after
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
