"""Answers of calls that come through a node under another's control."""

from __future__ import annotations

import collections
import datetime
import os
import pickle
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpdeck.library.answer_data import load_data
from warpdeck.library.callprogram import MARK
from warpdeck.library.calls import RemoteTraceback, answers_of


class Attack:
    """An object whose unpickling calls a function."""

    def __init__(self, function: Any, *args: Any) -> None:
        self._call = function, args

    def __reduce__(self) -> Any:
        return self._call


class Mine:
    """A class of the caller's own program."""


def answer(value: object, number: int = 0) -> bytes:
    """Return the output of a job with this answer."""
    packed = pickle.dumps(value)
    head = number.to_bytes(4, "big") + len(packed).to_bytes(8, "big")
    return MARK + head + zlib.crc32(packed).to_bytes(4, "big") + packed


@pytest.mark.parametrize(
    "attack",
    [
        lambda path: Attack(os.mkdir, path),
        lambda path: [1, {"a": Attack(os.mkdir, path)}],
        lambda path: Attack(eval, f"__import__('os').mkdir({path!r})"),
        lambda path: Attack(getattr, Mine, "__init__"),
        lambda path: collections.defaultdict(os.getcwd),
        lambda path: np.array([Attack(os.mkdir, path)], dtype=object),
        lambda path: Attack(np.lib.format.open_memmap, path),
        lambda path: ValueError(Attack(os.mkdir, path)),
    ],
)
def test_no_code_of_a_node_runs_if_only_data_are_accepted(attack: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "ran")
    found = answers_of(answer((True, attack(target))), load_data)[0]
    assert isinstance(found.error, pickle.UnpicklingError) and "is not plain data" in str(found.error)
    assert not os.path.exists(target)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"loss": [0.1, 2, True], ("a", 1): {1, 2}, "b": b"x", "c": 1j},
        collections.Counter("abc"),
        collections.defaultdict(list, {1: [2]}),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        Decimal("1.5"),
        Path("/a"),
        np.float32(1.5),
    ],
)
def test_plain_data_arrive_unchanged(value: Any) -> None:
    assert answers_of(answer((True, value)), load_data)[0] == (value, None)


def test_arrays_arrive_unchanged() -> None:
    value = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(answers_of(answer((True, value)), load_data)[0].result, value)


def test_exceptions_of_python_are_raised_and_others_are_named() -> None:
    found = answers_of(answer((False, ValueError("bad"), "traceback")), load_data)[0]
    assert isinstance(found.error, ValueError) and isinstance(found.error.__cause__, RemoteTraceback)
    own = answers_of(answer((True, Mine())), load_data)[0].error
    assert f"{Mine.__module__}.Mine" in str(own)


def test_an_answer_of_another_form_is_an_error_of_its_call_only() -> None:
    output = (
        answer((True, 1)) + answer("no tuple", 1) + answer((), 2) + answer((False,), 3) + answer((True, 4), 4)
    )
    found = answers_of(output, load_data)
    assert (found[0], found[4]) == ((1, None), (4, None))
    assert all(isinstance(found[number].error, Exception) for number in (1, 2, 3))
