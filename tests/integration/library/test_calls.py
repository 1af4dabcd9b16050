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
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=call_script(source, python=python).encode(),
        env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    answers = answers_of(done.stdout)
    assert list(answers) == list(range(len(answers)))
    return done.returncode, list(answers.values()), done.stderr.decode()


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


def test_each_task_of_an_array_makes_its_own_calls() -> None:
    tasks = [[call(operator.add, 1, 2)], [call(operator.mul, 3, 4), call(operator.add, "a", "b")]]
    assert [results(ran(*tasks, task=task)[1]) for task in range(2)] == [[3], [12, "ab"]]


def test_a_call_that_raises_does_not_touch_those_beside_it() -> None:
    code, answers, _ = ran([call(pow, 2, 3), call(pow, 2, "3"), call(pow, 2, exp=4)])
    assert (code, [answer.result for answer in answers]) == (1, [8, None, 16])
    assert [type(answer.error) for answer in answers] == [type(None), TypeError, type(None)]


def test_what_was_answered_before_the_job_was_killed_is_there() -> None:
    def dies() -> None:
        os.kill(os.getpid(), 9)

    code, answers, _ = ran([call(len, "ab"), call(dies), call(len, "abc")])
    assert (code, results(answers)) == (-9, [2])


def test_what_is_printed_and_read_does_not_touch_the_answer() -> None:
    def talks() -> str:
        print("printed")
        subprocess.run(["sh", "-c", "echo from a child; cat"], check=False)
        return sys.stdin.read()

    code, answers, said = ran([call(talks)])
    assert (code, results(answers)) == (0, [""])
    assert sorted(said.splitlines()) == ["from a child", "printed"]


def test_a_node_with_another_release_of_the_pickler_uses_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloudpickle.py").write_text("raise RuntimeError('an old one')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert results(ran([call(lambda: lambda: "made there")])[1])[0]() == "made there"


def test_an_exception_comes_back_with_where_it_was_raised() -> None:
    def deep() -> None:
        raise KeyError("lost")

    code, answers, _ = ran([call(deep)])
    assert (code, repr(raised(answers))) == (1, "KeyError('lost')")
    assert "in deep" in str(raised(answers).__cause__)


def test_an_exception_that_cannot_be_sent_is_told_in_words() -> None:
    class Odd(Exception):
        def __init__(self, first: str, second: str) -> None:
            super().__init__(f"{first} {second}")

    def fails() -> None:
        raise Odd("two", "words")

    error = raised(ran([call(fails)])[1])
    assert (type(error), str(error)) == (RuntimeError, "Odd: two words")


def test_a_result_that_cannot_be_sent_is_the_caller_s_error() -> None:
    def thread() -> object:
        import threading

        return threading.Lock()

    error = raised(ran([call(thread)])[1])
    assert isinstance(error, pickle.PicklingError)
    assert str(error).startswith("the result of thread cannot be sent back: TypeError: cannot pickle")


def test_what_cannot_be_sent_is_refused_in_one_sentence() -> None:
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


def test_a_result_of_a_class_of_the_program_itself_comes_back(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from tests.integration.library.test_calls import call, ran, results\n"
        "class Point:\n"
        "    def __init__(self, x): self.x = x\n"
        "def shifted(point): return Point(point.x + 1)\n"
        "if __name__ == '__main__': print(results(ran([call(shifted, Point(2))])[1])[0].x)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "3\n"


def test_calls_may_come_by_a_file(tmp_path: Path) -> None:
    assert results(ran([call(len, "x" * 5_000_000)], path=tmp_path / "it's a file")[1]) == [5_000_000]


def test_a_python_that_is_not_there_is_replaced_by_one_of_this_version() -> None:
    code, _, said = ran([call(len, "")], python="/nowhere/python")
    assert code == 0 or f"python{sys.version_info.major}.{sys.version_info.minor}" in said


def test_a_function_without_cloudpickle_must_be_in_a_module() -> None:
    program = (
        "import sys; sys.modules['cloudpickle'] = None\n"
        "from warpdeck.library.calls import packed_function\n"
        "def f(): pass\n"
        "packed_function(len)\n"
        "try: packed_function(f)\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "f is defined in the main program\n"


@pytest.mark.parametrize("output", [b"", MARK, MARK + b"\0" * 15, MARK + b"\0" * 11 + b"\x09" + b"\0" * 30])
def test_half_an_answer_is_none(output: bytes) -> None:
    assert answers_of(output) == {}


def test_what_a_prolog_writes_before_the_answer_does_no_harm() -> None:
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=call_script(carried(calls_text([[call(len, "abc")]])), python=sys.executable).encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert answers_of(b"prolog " + MARK + b" more" + done.stdout) == {0: Answer(3, None)}
    assert answers_of(done.stdout[:-1]) == {}


def test_modules_are_found_where_the_caller_finds_them() -> None:
    found = search_path("/a/b", ["/a/b", "/a/b/c", "/a/bc", "/lib"])
    assert found == [".", "c", "/a/bc", "/lib"]
