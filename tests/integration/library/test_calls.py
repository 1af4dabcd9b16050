"""Function calls as scripts and their answers, run by the real shell and Python instead of a job."""

from __future__ import annotations

import operator
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from warpdeck.base.errors import UserError
from warpdeck.library.callprogram import MARK
from warpdeck.library.calls import (
    Answer,
    PackedCall,
    answers_of,
    by_file,
    call_script,
    calls_text,
    carried,
    packed_call,
    packed_function,
    search_path,
)


def ran(
    *tasks: Sequence[PackedCall], task: int = 0, path: Path | None = None, python: str = sys.executable
) -> tuple[int, list[Answer], str]:
    """Return (exit code, answers, output) of one task."""
    text = calls_text(tasks)
    source = carried(text)
    if path is not None:
        path.write_text(text)
        source = by_file(str(path))
    result = subprocess.run(
        ["/bin/sh", "-s"],
        input=call_script(source, python=python).encode(),
        env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    answers = answers_of(result.stdout)
    assert list(answers) == list(range(len(answers)))
    return result.returncode, list(answers.values()), result.stderr.decode()


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> PackedCall:
    return packed_call(packed_function(function), args, kwargs)


def results(answers: Sequence[Answer]) -> list[Any]:
    """Return the results of calls that all returned."""
    assert [answer.error for answer in answers] == [None] * len(answers)
    return [answer.result for answer in answers]


def raised(answers: Sequence[Answer]) -> BaseException:
    """Return the exception of the only call."""
    (answer,) = answers
    assert answer.error is not None
    return answer.error


def test_each_task_of_an_array_runs_its_own_calls() -> None:
    tasks = [[call(operator.add, 1, 2)], [call(operator.mul, 3, 4), call(operator.add, "a", "b")]]
    assert [results(ran(*tasks, task=task)[1]) for task in range(2)] == [[3], [12, "ab"]]


def test_an_exception_does_not_affect_other_calls() -> None:
    code, answers, _ = ran([call(pow, 2, 3), call(pow, 2, "3"), call(pow, 2, exp=4)])
    assert (code, [answer.result for answer in answers]) == (1, [8, None, 16])
    assert [type(answer.error) for answer in answers] == [type(None), TypeError, type(None)]


def test_results_from_before_a_kill_are_available() -> None:
    def dies() -> None:
        os.kill(os.getpid(), 9)

    code, answers, _ = ran([call(len, "ab"), call(dies), call(len, "abc")])
    assert (code, results(answers)) == (-9, [2])


def test_output_and_input_of_a_call_do_not_affect_its_result() -> None:
    def talks() -> str:
        print("printed")
        subprocess.run(["sh", "-c", "echo from a child; cat"], check=False)
        return sys.stdin.read()

    code, answers, message = ran([call(talks)])
    assert (code, results(answers)) == (0, [""])
    assert sorted(message.splitlines()) == ["from a child", "printed"]


def test_a_node_with_another_pickler_release_uses_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloudpickle.py").write_text("raise RuntimeError('an old one')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert results(ran([call(lambda: lambda: "made there")])[1])[0]() == "made there"


def test_an_exception_returns_with_its_traceback() -> None:
    def deep() -> None:
        raise KeyError("lost")

    code, answers, _ = ran([call(deep)])
    assert (code, repr(raised(answers))) == (1, "KeyError('lost')")
    assert "in deep" in str(raised(answers).__cause__)


def test_an_exception_that_cannot_be_sent_is_described() -> None:
    class Odd(Exception):
        def __init__(self, first: str, second: str) -> None:
            super().__init__(f"{first} {second}")

    def fails() -> None:
        raise Odd("two", "words")

    error = raised(ran([call(fails)])[1])
    assert (type(error), str(error)) == (RuntimeError, "Odd: two words")


def test_a_result_that_cannot_be_sent_raises_an_error() -> None:
    def thread() -> object:
        import threading

        return threading.Lock()

    error = raised(ran([call(thread)])[1])
    assert isinstance(error, pickle.PicklingError)
    assert str(error).startswith("the result of thread cannot be sent back: TypeError: cannot pickle")


def test_an_argument_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(
        UserError, match="an argument of len cannot be sent to a job: TypeError: cannot pickle"
    ):
        call(len, threading.Lock())
    lock = threading.Lock()
    with pytest.raises(UserError, match="closes cannot be sent to a job") as refused:

        def closes() -> None:
            lock.acquire()

        packed_function(closes)
    assert "inside the function" in refused.value.hint


def test_a_result_of_a_class_of_the_main_program_can_be_returned(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from tests.integration.library.test_calls import call, ran, results\n"
        "class Point:\n"
        "    def __init__(self, x): self.x = x\n"
        "def shifted(point): return Point(point.x + 1)\n"
        "if __name__ == '__main__': print(results(ran([call(shifted, Point(2))])[1])[0].x)\n"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout == "3\n"


def test_calls_can_be_passed_in_a_file(tmp_path: Path) -> None:
    assert results(ran([call(len, "x" * 5_000_000)], path=tmp_path / "it's a file")[1]) == [5_000_000]


def test_a_missing_python_is_replaced_by_one_of_the_same_version() -> None:
    code, _, message = ran([call(len, "")], python="/nowhere/python")
    assert code == 0 or f"python{sys.version_info.major}.{sys.version_info.minor}" in message


def test_a_function_without_cloudpickle_must_be_in_a_module() -> None:
    program = (
        "import sys; sys.modules['cloudpickle'] = None\n"
        "from warpdeck.library.calls import packed_function\n"
        "def f(): pass\n"
        "packed_function(len)\n"
        "try: packed_function(f)\n"
        "except Exception as error: print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "f is defined in the main program\n"


@pytest.mark.parametrize("output", [b"", MARK, MARK + b"\0" * 15, MARK + b"\0" * 11 + b"\x09" + b"\0" * 30])
def test_an_incomplete_answer_counts_as_none(output: bytes) -> None:
    assert answers_of(output) == {}


def test_output_before_the_answer_is_ignored() -> None:
    result = subprocess.run(
        ["/bin/sh", "-s"],
        input=call_script(carried(calls_text([[call(len, "abc")]])), python=sys.executable).encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert answers_of(b"prolog " + MARK + b" more" + result.stdout) == {0: Answer(3, None)}
    assert answers_of(result.stdout[:-1]) == {}


def test_modules_are_found_on_the_path_of_the_caller() -> None:
    found = search_path("/a/b", ["/a/b", "/a/b/c", "/a/bc", "/lib"])
    assert found == [".", "c", "/a/bc", "/lib"]
