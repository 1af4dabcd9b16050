"""New values of parameters in recorded requests."""

from __future__ import annotations

import shlex

import pytest

from warpdeck.base.errors import UserError
from warpdeck.model import Request
from warpdeck.notation.request.new_values import with_values
from warpdeck.notation.request.sweep import with_sweep

SH = "#!/bin/sh\n"


def script_of(body: str, *settings: str) -> str:
    return with_values(Request(script=SH + body), settings, label="12").script.removeprefix(SH)


def refusal(request: Request, *settings: str) -> str:
    with pytest.raises(UserError) as caught:
        with_values(request, settings, label="12")
    return caught.value.line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("--lr", "0.1", "--n", "2"), ("--lr", "3e-4", "--n", "2")),
        (("--lr=0.1",), ("--lr=3e-4",)),
        (("model.lr=1", "lr=0.1"), ("model.lr=1", "lr=3e-4")),
        (("--lr-decay", "1", "--lr", "-1"), ("--lr-decay", "1", "--lr", "3e-4")),
    ],
)
def test_a_value_is_replaced_in_the_form_in_which_it_is_written(
    before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    line = shlex.join(["sbatch", "train.sh", *before])
    changed = with_values(
        Request(script=SH + 'python train.py "$@"\n', script_args=before, submit_line=line),
        ["lr=3e-4"],
        label="12",
    )
    assert changed.script_args == after
    assert changed.submit_line == shlex.join(["sbatch", "train.sh", *after])
    assert with_values(Request(argv=("train", *before)), ["lr=3e-4"], label="12").argv == ("train", *after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("python t.py --lr 0.1 --n 2\n", "python t.py --lr 3e-4 --n 2\n"),
        ("python t.py --lr=0.1; true\n", "python t.py --lr=3e-4; true\n"),
        ("python t.py optimizer.lr=1 lr='0.1'\n", "python t.py optimizer.lr=1 lr=3e-4\n"),
        ("# lr=1\nexport lr=${X}\n", "# lr=1\nexport lr=3e-4\n"),
        ("(t --lr 0.1)", "(t --lr 3e-4)"),
    ],
)
def test_a_value_is_replaced_in_the_commands_of_a_shell_script(before: str, after: str) -> None:
    assert script_of(before, "lr=3e-4") == after


@pytest.mark.parametrize("value", ["a b", "$HOME", "it's", '"x"; false', "-1", "`id`", "é*"])
def test_the_program_gets_the_value_literally(value: str) -> None:
    text = script_of("t --name=old -n 1\n", f"name={value}")
    assert shlex.split(text) == ["t", f"--name={value}", "-n", "1"]


@pytest.mark.parametrize(
    "body",
    [
        "t --lr $(cat lr) --n 1\n",
        "t --lr `cat lr` --n 1\n",
        't --lr "$(echo "0.1")"\n',
        "t --lr a\\ b\n",
        "t --lr --n 1\n",
        "t 'x --lr'\n",
        "# t --lr 1\n",
        "t --other-lr 1 my.lr=2\n",
    ],
)
def test_a_value_that_cannot_be_replaced_safely_is_not_found(body: str) -> None:
    assert "job 12 has no parameter lr" in refusal(Request(script=SH + body), "lr=2")


def test_only_shell_scripts_are_changed() -> None:
    request = Request(script="#!/usr/bin/env python3\nrun(n=1, lr=0.1)\n")
    assert "no parameter lr" in refusal(request, "lr=2")


def test_a_parameter_at_several_places_is_refused() -> None:
    twice = Request(script=SH + "t --lr 1\n", script_args=("--lr=2", "--lr", "3"))
    assert "parameter lr of job 12 has 3 values" in refusal(twice, "lr=2")
    assert "is set twice" in refusal(Request(argv=("t", "lr=1")), "lr=2", "lr=3")


@pytest.mark.parametrize("text", ["lr", "=1", "lr=", "--lr=1", "lr=1\n2", "lr=\0"])
def test_a_setting_that_is_not_one_is_refused(text: str) -> None:
    assert refusal(Request(argv=("t", "lr=1")), text)


def test_a_value_with_quotes_does_not_break_quotes_around_its_place() -> None:
    inner = Request(script=SH + "sh -c 't --lr 0.1 --n 2'\n")
    assert with_values(inner, ["lr=2"], label="12").script == SH + "sh -c 't --lr 2 --n 2'\n"
    assert "stands inside quotes" in refusal(inner, "lr=a b")


def test_the_value_of_a_sweep_is_replaced_if_it_is_the_only_one() -> None:
    script = with_sweep(SH + "t --lr $lr --seed $seed\n", "lr=0.1 seed=1..3")
    changed = with_values(Request(script=script), ["lr=3e-4"], label="12").script
    assert changed == with_sweep(SH + "t --lr $lr --seed $seed\n", "lr=3e-4 seed=1..3")
    assert "3 values in a sweep" in refusal(Request(script=script), "seed=2")
    assert "values in a sweep" not in refusal(Request(script=script), "n=2")


def test_the_recorded_text_of_wrap_has_the_new_value() -> None:
    line = shlex.join(["sbatch", "--wrap", "t --lr 0.1", "wrap"])
    request = Request(script=SH + "t --lr 0.1\n", submit_line=line)
    changed = with_values(request, ["lr=2"], label="12")
    assert changed.submit_line == shlex.join(["sbatch", "--wrap", "t --lr 2", "wrap"])
