"""The trials of a study, and the decision what to do next."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from warpdeck.client.runs.run import RunData, known
from warpdeck.protocol.job_rows import JobRow

from .study_file import Choice, Study

WORD = "study"
"""The first word of the comment of a trial's job."""
PRUNED_STATE = "CANCELLED"


class TrialState(StrEnum):
    """State of a trial. PRUNED means that its job was canceled, by the study or by a person."""

    OPEN = "open"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


class Trial(NamedTuple):
    """A trial as its job shows it."""

    number: int
    job: JobRow
    params: Mapping[str, Choice]
    state: TrialState
    value: float | None = None
    """The result, if the trial has ended and printed one."""
    steps: tuple[tuple[int, float], ...] = ()
    """The values of the metric by step, in the order of the steps."""


class Decision(NamedTuple):
    """The next action of a driver: it submits the trials with these numbers, or stops if the study is over."""

    submit: range
    is_over: bool
    problem: str = ""
    """The reason to stop before all trials have ended; "" if there is none."""


def decide(study: Study, trials: Sequence[Trial]) -> Decision:
    """Return what to do next.

    At most `at_once` trials are open. The study is over when `trials` trials have ended, or if all of the first
    `max_failures` ones have failed.
    """
    open_count = sum(trial.state == TrialState.OPEN for trial in trials)
    first = max((trial.number for trial in trials), default=-1) + 1
    ended = [trial for trial in trials if trial.state != TrialState.OPEN]
    if len(ended) >= study.max_failures and all(trial.state == TrialState.FAILED for trial in ended):
        problem = f"all of the first {len(ended)} trials have failed"
        return Decision(range(first, first), is_over=True, problem=problem)
    count = max(0, min(study.at_once - open_count, study.trials - first))
    return Decision(range(first, first + count), is_over=not open_count and not count)


def comment_of(study: Study, number: int, params: Mapping[str, Choice]) -> str:
    """Return the comment by which a trial's job is found again."""
    return f"{WORD} {study.name} {number} {json.dumps(params)}"


def trials_of(study: Study, runs: Iterable[RunData]) -> list[Trial]:
    """Return the trials among these jobs, by number. Jobs that are no trials of the study are left out."""
    found: dict[int, Trial] = {}
    for run in runs:
        read = _read_comment(study, run.row.comment)
        if read is not None:
            number, params = read
            found.setdefault(number, _trial(study, run, number, params))
    return [found[number] for number in sorted(found)]


def is_open(row: JobRow) -> bool:
    """Return whether a job has not ended yet."""
    return row.end is None


def best(study: Study, trials: Collection[Trial]) -> Trial | None:
    """Return the complete trial with the best result, or None."""
    complete = [each for each in trials if each.state == TrialState.COMPLETE]
    sign = 1 if study.direction == "minimize" else -1
    return min(complete, key=lambda trial: sign * (trial.value or 0.0), default=None)


def _trial(study: Study, run: RunData, number: int, params: Mapping[str, Choice]) -> Trial:
    points = run.readings.get(study.metric, ())
    values = known(points)
    steps: dict[int, float] = {}
    for place, point in enumerate(points):
        if not math.isnan(point.value):
            steps[place if point.step is None else int(point.step)] = point.value
    pick = min if study.direction == "minimize" else max
    value = (pick(values) if study.value == "best" else values[-1]) if values else None
    if is_open(run.row):
        state = TrialState.OPEN
    elif run.row.state == "COMPLETED" and value is not None:
        state = TrialState.COMPLETE
    else:
        state = TrialState.PRUNED if run.row.state == PRUNED_STATE else TrialState.FAILED
    return Trial(number, run.row, params, state, value, tuple(sorted(steps.items())))


def _read_comment(study: Study, comment: str) -> tuple[int, dict[str, Choice]] | None:
    word, _, rest = comment.partition(" ")
    name, _, rest = rest.partition(" ")
    number, _, text = rest.partition(" ")
    if word != WORD or name != study.name or not number.isdigit():
        return None
    try:
        params = json.loads(text)
    except ValueError:
        return None
    return (int(number), params) if isinstance(params, dict) else None
