"""Sweeps: each combination runs once, in a script that any shell and any sbatch can run."""

from __future__ import annotations

import itertools
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpdeck.base.errors import UserError
from warpdeck.notation.request.sweep import (
    array_of,
    parse_grid,
    substituted,
    sweep_of,
    task_count,
    task_parameters,
    values_of,
    with_sweep,
    without_sweep,
)

SCRIPT = "#!/bin/sh\n#SBATCH --gpus=1\npython train.py --lr $lr\n"


def test_the_last_parameter_changes_fastest() -> None:
    grid = parse_grid("lr=0.1,0.01 seed=1..3 step=0..10..5")
    assert task_count(grid) == 18
    assert array_of(grid) == "0-17"
    assert values_of(grid, 0) == {"lr": "0.1", "seed": "1", "step": "0"}
    assert values_of(grid, 1) == {"lr": "0.1", "seed": "1", "step": "5"}
    assert values_of(grid, 17) == {"lr": "0.01", "seed": "3", "step": "10"}
    assert parse_grid("  ") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr", "'lr' is not a parameter"),
        ("1r=2", "is not a parameter"),
        ("lr=", "the parameter lr has an empty value"),
        ("lr=1,,2", "the parameter lr has an empty value"),
        ("lr=1 lr=2", "lr twice"),
        ("lr=3..1", "the range 3..1 is empty"),
        ("lr=1..5..0", "the range 1..5..0 is empty"),
        ("lr='a", "cannot be read"),
        ("PATH=/bin", "the parameter PATH would replace a variable"),
        ("SLURM_JOB_ID=1", "would replace a variable"),
        ("a=1..999999999", "the maximum is 100,000"),
        ("a=1..1000 b=1..1000", "1,000,000 tasks"),
        ("a=1\nb=2", "one line"),
        ("x" * 20_000, "at most"),
    ],
)
def test_an_invalid_sweep_has_a_clear_message(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_grid(text)


def test_a_sweep_is_written_below_the_options_and_can_be_replaced_and_removed() -> None:
    script = with_sweep(SCRIPT, "lr=0.1,0.01")
    lines = script.split("\n")
    assert lines[:3] == ["#!/bin/sh", "#SBATCH --gpus=1", "# sweep: lr=0.1,0.01"]
    assert lines[3].startswith("export lr=")
    assert lines[4:] == ["python train.py --lr $lr", ""]
    assert sweep_of(script) == "lr=0.1,0.01"
    other = with_sweep(script, "lr=1 seed=1..2")
    assert sweep_of(other) == "lr=1 seed=1..2"
    assert other.count("# sweep") == 1
    assert with_sweep(other, "") == without_sweep(other) == SCRIPT
    assert sweep_of(SCRIPT) == ""


def test_the_values_of_a_task_that_differ_between_tasks_are_shown() -> None:
    script = with_sweep(SCRIPT, "lr=0.1,0.01 model=vit seed=1,2 note='a b',c")
    assert task_parameters(script, 4) == "lr=0.01 seed=1 note='a b'"
    assert task_parameters(SCRIPT, 4) == ""
    assert task_parameters(script.replace("# sweep: lr=0.1", "# sweep: lr="), 4) == ""


@pytest.mark.parametrize(
    ("first", "takes"),
    [
        ("#!/bin/bash -l", True),
        ("#!/usr/bin/env bash", True),
        ("#!/usr/bin/env -S zsh", True),
        ("#!/usr/bin/env python3", False),
        ("#!/usr/bin/python", False),
        ("", False),
    ],
)
def test_only_shell_scripts_can_have_a_sweep(first: str, takes: bool) -> None:
    if takes:
        assert sweep_of(with_sweep(f"{first}\ntrue\n", "a=1,2")) == "a=1,2"
    else:
        with pytest.raises(UserError, match="is not a shell script"):
            with_sweep(f"{first}\ntrue\n", "a=1,2")


def test_only_whole_names_are_substituted() -> None:
    line = "train --lr $lr --lrs $lrs ${lr}x $$lr_"
    assert substituted(line, {"lr": "0.1"}) == "train --lr 0.1 --lrs $lrs 0.1x $$lr_"
    assert substituted(line, {}) == line


_VALUES = st.lists(
    st.text(
        st.characters(codec="utf-8", exclude_characters=",\n\0", exclude_categories=["Cc", "Zl", "Zp"]),
        min_size=1,
        max_size=8,
    ).filter(lambda value: ".." not in value and value.splitlines() == [value]),
    min_size=1,
    max_size=4,
)


@given(st.lists(_VALUES, min_size=1, max_size=2))
@settings(max_examples=6, deadline=None)
def test_every_combination_reaches_the_script_once(lists: list[list[str]]) -> None:
    text = " ".join(f"p{at}={shlex.quote(','.join(values))}" for at, values in enumerate(lists))
    grid = parse_grid(text)
    script = with_sweep(
        "#!/bin/sh\nprintf '%s\\n' " + " ".join(f'"$p{at}"' for at in range(len(lists))) + "\n", text
    )
    shell = shutil.which("dash") or "sh"
    loop = f"for SLURM_ARRAY_TASK_ID in $(seq 0 {task_count(grid) - 1}); do\n{script}done\n"
    result = subprocess.run([shell, "-eu"], input=loop.encode(), capture_output=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    message = [value for each in itertools.product(*lists) for value in each]
    assert result.stdout.decode().split("\n")[:-1] == message
    assert [value for task in range(task_count(grid)) for value in values_of(grid, task).values()] == message
