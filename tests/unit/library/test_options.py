"""Keyword arguments as options of sbatch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from warpdeck.base.errors import UserError
from warpdeck.client.submission import command_options
from warpdeck.library.drafting import option_words
from warpdeck.notation.request.job_request import build_request


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gpus": 2, "cpus_per_task": 8}, ["--gpus=2", "--cpus-per-task=8"]),
        ({"hold": True, "requeue": False, "qos": None}, ["--hold"]),
        ({"time": timedelta(hours=26, seconds=30)}, ["--time=1560:30"]),
        ({"partition": ["a", "b"]}, ["--partition=a,b"]),
        ({"gpus": 0.5}, ["--gpus=0.5"]),
        ({"comment": "two words; $HOME"}, ["--comment=two words; $HOME"]),
    ],
)
def test_keyword_arguments_become_sbatch_options(given: dict[str, object], words: list[str]) -> None:
    assert option_words(given) == words
    build_request(command_options(words, {}, now=0.0), {})


def test_a_point_in_time_is_passed_in_local_time() -> None:
    moment = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    local = datetime.fromtimestamp(moment.timestamp())
    assert option_words({"begin": moment}) == [f"--begin={local.isoformat()}"]


@pytest.mark.parametrize(
    "given", [{"time": timedelta(seconds=-1)}, {"begin": timedelta(hours=1)}, {"gpus": {"a": 1}}]
)
def test_a_value_of_the_wrong_type_is_refused_with_the_options_name(given: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"^{next(iter(given))} cannot be"):
        option_words(given)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(UserError, match="--gpu-count"):
        build_request(command_options(option_words({"gpu_count": 1}), {}, now=0.0), {})
