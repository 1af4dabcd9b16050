"""Calls as scripts and their answers, with the real shell and Python in place of a job."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from warpdeck.library.callprogram import MARK
from warpdeck.library.calls import Call, answer_of, by_file, call_script, calls_text, carried, search_path


def ran(
    calls: Sequence[Call], task: int = 0, *, path: Path | None = None, python: str = sys.executable
) -> Any:
    """(exit code, answer, what was printed) of one task."""
    text = calls_text(calls)
    source = carried(text)
    if path is not None:
        path.write_text(text)
        source = by_file(str(path))
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=call_script(source, python=python).encode(),
        env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, answer_of(done.stdout), done.stderr.decode()


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    return Call(function, [(args, kwargs)])


def test_each_task_of_an_array_makes_its_own_call() -> None:
    calls = [call(operator.add, 1, 2), call(operator.mul, 3, 4), call(operator.add, "a", "b")]
    assert [ran(calls, task)[1] for task in range(3)] == [([3], None), ([12], None), (["ab"], None)]


def test_several_calls_in_one_task_answer_together() -> None:
    assert ran([Call(pow, [((2, 3), {}), ((2,), {"exp": 4})])])[1] == ([8, 16], None)


def test_what_is_printed_and_read_does_not_touch_the_answer() -> None:
    def talks() -> str:
        print("printed")
        os.system("echo from a child; cat")
        return sys.stdin.read()

    code, answer, said = ran([call(talks)])
    assert (code, answer) == (0, ([""], None))
    assert sorted(said.splitlines()) == ["from a child", "printed"]


def test_a_node_with_another_release_of_the_pickler_uses_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloudpickle.py").write_text("raise RuntimeError('an old one')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ran([call(lambda: lambda: "made there")])[1][0][0]() == "made there"


def test_an_exception_comes_back_with_where_it_was_raised() -> None:
    def deep() -> None:
        raise KeyError("lost")

    code, (results, error), _ = ran([call(deep)])
    assert (code, results, repr(error)) == (1, None, "KeyError('lost')")
    assert "in deep" in str(error.__cause__)


def test_an_exception_that_cannot_be_sent_is_told_in_words() -> None:
    class Odd(Exception):
        def __init__(self, first: str, second: str) -> None:
            super().__init__(f"{first} {second}")

    def fails() -> None:
        raise Odd("two", "words")

    _, (_, error), _ = ran([call(fails)])
    assert (type(error), str(error)) == (RuntimeError, "Odd: two words")


def test_a_result_that_cannot_be_sent_is_the_caller_s_error() -> None:
    def thread() -> object:
        import threading

        return threading.Lock()

    _, (_, error), _ = ran([call(thread)])
    assert "pickle" in str(error)


def test_calls_may_come_by_a_file(tmp_path: Path) -> None:
    assert ran([call(len, "x" * 5_000_000)], path=tmp_path / "it's a file")[1] == ([5_000_000], None)


def test_a_python_that_is_not_there_is_replaced_by_one_of_this_version() -> None:
    code, _, said = ran([call(len, "")], python="/nowhere/python")
    assert code == 0 or f"python{sys.version_info.major}.{sys.version_info.minor}" in said


def test_a_function_without_cloudpickle_must_be_in_a_module() -> None:
    program = (
        "import sys; sys.modules['cloudpickle'] = None\n"
        "from warpdeck.library.calls import Call\n"
        "def f(): pass\n"
        "Call(len, [])\n"
        "try: Call(f, [])\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "f is defined in the program itself\n"


@pytest.mark.parametrize("output", [b"", MARK, MARK + b"\0" * 39, MARK + (9).to_bytes(8, "big") + b"\0" * 40])
def test_half_an_answer_is_none(output: bytes) -> None:
    assert answer_of(output) is None


def test_what_a_prolog_writes_before_the_answer_does_no_harm() -> None:
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=call_script(carried(calls_text([call(len, "abc")])), python=sys.executable).encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert answer_of(b"prolog " + MARK + b" more" + done.stdout) == ([3], None)
    assert answer_of(done.stdout[:-1]) is None


def test_modules_are_found_where_the_caller_finds_them() -> None:
    found = search_path("/a/b", ["/a/b", "/a/b/c", "/a/bc", "/lib"])
    assert found == [".", "c", "/a/bc", "/lib"]
