"""JSON as text without the json package: the same output and the same accepted input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck_agent.wire import frames, jsontext

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_survives_a_round_trip_and_equals_that_of_json(value: Any) -> None:
    text = jsontext.dumps(value)
    assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert jsontext.loads(f" {text}\n") == value == json.loads(text)


@given(st.text(alphabet='{}[],:"\\u01\x01antrue -.e', max_size=20))
def test_text_that_json_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"line|value"):
            jsontext.loads(text)
    else:
        assert repr(jsontext.loads(text)) == repr(expected)


def test_errors_are_described_without_the_json_package_loaded() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from warpdeck_agent.wire import jsontext\n"
        "assert 'json' not in sys.modules and 're' not in sys.modules\n"
        "try: jsontext.loads('{')\n"
        "except ValueError as error: print(error)\n"
    )
    root = str(Path(frames.__file__).parents[2])
    result = subprocess.run(
        [sys.executable, "-IS", "-c", code, root], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"


def test_values_without_a_json_form_are_refused() -> None:
    with pytest.raises(TypeError, match="bytes is not a JSON value"):
        jsontext.dumps({"a": b""})
    whole: list[Any] = []
    whole.append(whole)
    with pytest.raises(RecursionError):
        jsontext.dumps(whole)
    assert jsontext.dumps([1]) == "[1]"
