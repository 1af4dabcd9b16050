"""The file of a pipeline, and the decision which of its stages are submitted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.library.pipeline.pipeline_file import Pipeline, read_pipeline
from warpdeck.library.pipeline.stages import (
    Attempts,
    StageState,
    Submission,
    attempts_of,
    comment_of,
    decide,
    states_of,
)
from warpdeck.protocol.job_rows import JobRow

FILE = """\
[stages.evaluate]
run = "true"
after = ["train"]
[stages.train]
script = "train.sh"
args = ["--epochs", "3"]
after = ["prepare", "download"]
options = { gpus = 4 }
[stages.prepare]
run = "true"
[stages.download]
run = "true"
"""


def written(folder: Path, text: str = FILE) -> str:
    (folder / "train.sh").write_text("#!/bin/sh\ntrue\n")
    (folder / "p.toml").write_text(text)
    return str(folder / "p.toml")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return read_pipeline(written(tmp_path))


class Record:
    """The jobs of a pipeline, as the controller would record them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.rows: dict[int, JobRow] = {}

    def submit(self, submission: Submission, *, tasks: int = 1) -> None:
        first = len(self.rows) + 1
        for number in range(first, first + tasks):
            comment = comment_of(self.pipeline, submission)
            self.rows[number] = JobRow(id=number, label=str(number), array_job_id=first, comment=comment)

    def set(self, stage: str, state: str) -> None:
        """Set the state of all jobs of the last attempt."""
        for job in self.attempts[stage].jobs:
            self.rows[job.id] = JobRow(
                id=job.id,
                label=job.label,
                array_job_id=job.array_job_id,
                comment=job.comment,
                state=state,
                start=None if state in ("PENDING", "CANCELLED") else 1.0,
                end=None if state in ("PENDING", "RUNNING") else 2.0,
            )

    @property
    def attempts(self) -> Attempts:
        return attempts_of(self.pipeline, self.rows.values())

    def submit_all(self, **options: tuple[str, ...]) -> list[str]:
        """Carry out the plan, and return the submitted stages."""
        plan = decide(self.pipeline, self.attempts, **options)
        assert not plan.cancel
        for submission in plan.submit:
            self.submit(submission)
        return [submission.stage for submission in plan.submit]


def test_stages_are_ordered_by_their_dependencies(pipeline: Pipeline) -> None:
    assert pipeline.name == "p"
    assert list(pipeline.stages)[2:] == ["train", "evaluate"]
    assert pipeline.stages["train"].text == "#!/bin/sh\ntrue\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'after = ["train"]',
            'after = ["test"]',
            "the stage evaluate comes after test, which does not exist",
        ),
        ('after = ["train"]', 'after = ["train", "train"]', "names a stage twice"),
        ('run = "true"\nafter', 'run = " "\nafter', "the stage evaluate needs either run or script"),
        ('run = "true"\nafter', 'run = "true"\nargs = ["x"]\nafter', "has args, but no script"),
        ("gpus = 4", 'dependency = "afterok:1"', "cannot have the option dependency"),
        ("[stages.prepare]\n", '[stages.prepare]\nafter = ["evaluate"]\n', "the stages wait for each other"),
        ("[stages.prepare]\n", "[stages.prepare]\nneeds = 1\n", "unknown field `needs`"),
        ('script = "train.sh"', 'script = "none.sh"', "there is no script"),
        ("stages.evaluate", 'stages."eval uate"', "cannot be the name of a stage"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(UserError, match=message):
        read_pipeline(written(tmp_path, FILE.replace(old, new)))


def test_all_stages_are_submitted_once(pipeline: Pipeline) -> None:
    record = Record(pipeline)
    assert record.submit_all() == list(pipeline.stages)
    assert record.submit_all() == []
    assert set(states_of(pipeline, record.attempts).values()) == {StageState.WAITING}


def test_a_failed_stage_and_those_after_it_are_submitted_again(pipeline: Pipeline) -> None:
    record = Record(pipeline)
    record.submit_all()
    for stage, state in (
        ("prepare", "COMPLETED"),
        ("download", "COMPLETED"),
        ("train", "FAILED"),
        ("evaluate", "CANCELLED"),
    ):
        record.set(stage, state)
    assert record.submit_all() == ["train", "evaluate"]
    assert {stage: attempt.number for stage, attempt in record.attempts.items()} == {
        "prepare": 1,
        "download": 1,
        "train": 2,
        "evaluate": 2,
    }
    assert record.attempts["evaluate"].after == {"train": 2}


def test_a_stage_that_waits_for_outdated_results_is_canceled_first(pipeline: Pipeline) -> None:
    """The controller has not ended it yet although the stage before it has failed."""
    record = Record(pipeline)
    record.submit_all()
    record.set("prepare", "COMPLETED")
    record.set("download", "COMPLETED")
    record.set("train", "TIMEOUT")
    plan = decide(pipeline, record.attempts)
    assert plan.cancel == (record.attempts["evaluate"].job_id,)


def test_a_running_stage_is_not_canceled(pipeline: Pipeline) -> None:
    record = Record(pipeline)
    record.submit_all()
    record.set("prepare", "COMPLETED")
    record.set("download", "COMPLETED")
    record.set("train", "RUNNING")
    assert record.submit_all() == []
    with pytest.raises(UserError, match="the stage train has to run again, but its job 3 still runs"):
        decide(pipeline, record.attempts, again=("prepare",))


def test_a_changed_stage_and_those_after_it_are_outdated(pipeline: Pipeline, tmp_path: Path) -> None:
    record = Record(pipeline)
    record.submit_all()
    for stage in pipeline.stages:
        record.set(stage, "COMPLETED")
    assert record.submit_all() == []
    record.pipeline = read_pipeline(written(tmp_path, FILE.replace("gpus = 4", "gpus = 8")))
    states = states_of(record.pipeline, record.attempts)
    assert states == {
        "prepare": StageState.COMPLETE,
        "download": StageState.COMPLETE,
        "train": StageState.OUTDATED,
        "evaluate": StageState.OUTDATED,
    }
    assert record.submit_all() == ["train", "evaluate"]


def test_an_array_is_complete_when_all_of_its_tasks_are(pipeline: Pipeline) -> None:
    record = Record(pipeline)
    record.submit(Submission("prepare", 1, {}), tasks=3)
    record.set("prepare", "COMPLETED")
    assert states_of(pipeline, record.attempts)["prepare"] == StageState.COMPLETE
    last = record.attempts["prepare"].jobs[-1]
    record.rows[last.id] = JobRow(
        id=last.id,
        label=last.label,
        array_job_id=last.array_job_id,
        comment=last.comment,
        state="FAILED",
        end=3.0,
    )
    assert states_of(pipeline, record.attempts)["prepare"] == StageState.FAILED


def test_comments_of_users_are_no_stages(pipeline: Pipeline) -> None:
    key = pipeline.key
    for comment in (
        "",
        "pipeline",
        f"pipeline {key} train",
        f"pipeline {key} train []",
        f'pipeline {key} train {{"attempt": "x", "digest": "", "after": {{}}}}',
        f'pipeline {key} train {{"attempt": 1, "digest": "", "after": 3}}',
        f'pipeline {key} other {{"attempt": 1, "digest": "", "after": {{}}}}',
        'pipeline q@0 train {"attempt": 1, "digest": "", "after": {}}',
    ):
        assert attempts_of(pipeline, [JobRow(id=1, label="1", array_job_id=1, comment=comment)]) == {}


@pytest.mark.parametrize("seed", range(50))
def test_a_driver_that_is_killed_anywhere_leaves_a_pipeline_that_completes(
    pipeline: Pipeline, seed: int
) -> None:
    """Each job fails, completes or waits at random between the commands, and each command is killed after some submissions."""
    rng, record = random.Random(seed), Record(pipeline)
    for _ in range(200):
        try:
            plan = decide(pipeline, record.attempts)
        except UserError:
            plan = None  # A running job uses outdated results.
        if plan is not None and plan.cancel:
            for job in plan.cancel:
                stage = next(name for name, each in record.attempts.items() if each.job_id == job)
                record.set(stage, "CANCELLED")
        elif plan is not None:
            for submission in plan.submit[: rng.randint(1, 4)]:
                record.submit(submission)
        for stage, attempt in record.attempts.items():
            ready = all(
                (before := record.attempts.get(each)) is not None
                and before.number == number
                and before.state == StageState.COMPLETE
                for each, number in attempt.after.items()
            )
            if attempt.state == StageState.RUNNING:
                record.set(stage, rng.choice(("COMPLETED", "COMPLETED", "FAILED")))
            elif attempt.state == StageState.WAITING and ready and rng.random() < 0.5:
                record.set(stage, "RUNNING")
        states = states_of(pipeline, record.attempts)
        if set(states.values()) == {StageState.COMPLETE}:
            break
    else:
        raise AssertionError(f"the pipeline did not complete: {states}")
    for stage, attempt in record.attempts.items():
        assert attempt.after == {each: record.attempts[each].number for each in pipeline.stages[stage].after}
