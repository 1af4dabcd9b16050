"""The file of a study, and the decision what its driver does next."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.client.runs.printed_metrics import Point
from warpdeck.client.runs.run import RunData
from warpdeck.library.study.study_file import Study, read_study
from warpdeck.library.study.trials import TrialState, best, comment_of, decide, trials_of
from warpdeck.protocol.job_rows import JobRow

FILE = """\
metric = "loss"
trials = 6
at_once = 2
max_failures = 3
script = "train.sh"
[parameters]
lr = { low = 1e-5, high = 1e-1, log = true }
optimizer = ["adam", "sgd"]
"""


def written(folder: Path, text: str = FILE, script: str = "#!/bin/sh\ntrue\n") -> str:
    (folder / "train.sh").write_text(script)
    (folder / "search.toml").write_text(text)
    return str(folder / "search.toml")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return read_study(written(tmp_path))


def run(
    study: Study, number: int, *, state: str = "COMPLETED", values: tuple[float, ...] = (0.5,)
) -> RunData:
    is_open = state in ("PENDING", "RUNNING")
    row = JobRow(
        id=100 + number,
        label=str(100 + number),
        array_job_id=100 + number,
        state=state,
        end=None if is_open else 1.0,
        comment=comment_of(study, number, {"lr": 0.1, "optimizer": "sgd"}),
    )
    readings = {"loss": tuple(Point(0.0, value, float(step)) for step, value in enumerate(values))}
    return RunData(row, {}, readings, is_read=True)


def test_the_name_of_a_study_is_that_of_its_file(study: Study) -> None:
    assert study.name == "search" and study.text == "#!/bin/sh\ntrue\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("trials = 6", "trials = 0"), "trials"),
        (("trials = 6", "trails = 6"), "trails|trials"),
        (("1e-5", "0.5"), "lr cannot be searched"),
        (('["adam", "sgd"]', "[]"), "optimizer has no values"),
        (('["adam", "sgd"]', '["a,b"]'), "comma"),
        (("train.sh", "missing.sh"), "missing.sh"),
        (("optimizer =", '"my opt" ='), "my opt"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_study(written(tmp_path, FILE.replace(*change)))


def test_a_script_that_is_no_shell_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a shell script"):
        read_study(written(tmp_path, script="#!/usr/bin/env python3\n"))


def test_jobs_are_trials_by_their_comments(study: Study) -> None:
    runs = [
        run(study, 1, state="FAILED"),
        run(study, 0, values=(0.9, 0.4)),
        run(study, 2, state="CANCELLED"),
        run(study, 3, values=()),
        run(study, 4, state="RUNNING"),
        run(study, 0, state="RUNNING"),
        RunData(JobRow(id=9, label="9", array_job_id=9, comment="study other 1 {}")),
        RunData(JobRow(id=9, label="9", array_job_id=9, comment="study search x {")),
    ]
    trials = trials_of(study, runs)
    assert [(trial.number, trial.state) for trial in trials] == [
        (0, TrialState.COMPLETE),
        (1, TrialState.FAILED),
        (2, TrialState.PRUNED),
        (3, TrialState.FAILED),
        (4, TrialState.OPEN),
    ]
    assert trials[0].value == 0.4 and trials[0].steps == ((0, 0.9), (1, 0.4))
    assert trials[0].params == {"lr": 0.1, "optimizer": "sgd"}
    found = best(study, trials)
    assert found is not None and found.number == 0


@pytest.mark.parametrize(
    ("states", "submitted", "is_over"),
    [
        ([], [0, 1], False),
        (["RUNNING"], [1], False),
        (["RUNNING", "PENDING"], [], False),
        (["COMPLETED"] * 5, [5], False),
        (["COMPLETED"] * 5 + ["RUNNING"], [], False),
        (["COMPLETED"] * 6, [], True),
        (["FAILED"] * 2 + ["RUNNING"], [3], False),
        (["FAILED"] * 3 + ["RUNNING"], [], True),
        (["COMPLETED"] + ["FAILED"] * 4, [5], False),
    ],
)
def test_the_decision(study: Study, states: list[str], submitted: list[int], is_over: bool) -> None:
    trials = trials_of(study, [run(study, number, state=state) for number, state in enumerate(states)])
    decision = decide(study, trials)
    assert list(decision.submit) == submitted and decision.is_over == is_over
    assert bool(decision.problem) == (states[:3] == ["FAILED"] * 3)
