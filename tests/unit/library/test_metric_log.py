"""`warpdeck.log`: the lines that it prints are read again as curves."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

import warpdeck
from warpdeck.client.runs.printed_metrics import Part, readings


def printed(out: str) -> dict[str, list[tuple[float | None, float]]]:
    data = out.encode()
    found = readings([Part(0, data)], size_bytes=len(data), begin=0.0, end=1.0)
    return {name: [(point.step, point.value) for point in points] for name, points in found.items()}


def test_each_value_is_read_again_with_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    for step, loss in ((1, 0.75), (2, 1e-9), (30, -12345.678)):
        warpdeck.log({"loss": loss, "eval": {"acc": Decimal(step)}, "is_best": step > 1}, step=step)
    assert printed(capsys.readouterr().out) == {
        "loss": [(1, 0.75), (2, 1e-9), (30, -12345.678)],
        "eval/acc": [(1, 1), (2, 2), (30, 30)],
        "is_best": [(1, 0), (2, 1), (30, 1)],
    }


def test_values_without_a_step_and_without_a_number_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    warpdeck.log({"loss": math.nan})
    warpdeck.log({"loss": 2})
    (first, second) = printed(capsys.readouterr().out)["loss"]
    assert math.isnan(first[1]) and first[0] is None and second == (None, 2)


@pytest.mark.parametrize("variable", ["RANK", "SLURM_PROCID"])
def test_only_rank_0_prints(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "1")
    warpdeck.log({"loss": 1})
    assert capsys.readouterr().out == ""
    warpdeck.log({"loss": 1}, all_ranks=True)
    assert capsys.readouterr().out == '{"loss": 1}\n'


def test_a_value_that_is_no_number_is_named() -> None:
    with pytest.raises(TypeError, match="eval/acc is not a number: 'high'"):
        warpdeck.log({"eval": {"acc": "high"}})
