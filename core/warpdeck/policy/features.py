"""Node features: `--constraint` in Slurm's grammar. Pure.

    a&b  a,b   both                 a|b        either, and each node of the job may differ
    (a|b)&c    grouping             [a|b|c]    either, but the same one on every node of the job

Counts (`a*2`) and nested brackets are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from warpdeck.errors import UserError

Test = Callable[[frozenset[str]], bool]
"""Whether a node with these features will do."""

MAX_LENGTH = 1024
_TOKEN = re.compile(r"\s*([&|,()\[\]]|[^\s&|,()\[\]]+)")


def parse_constraint(text: str) -> tuple[Test, ...]:
    """The alternatives of a constraint: all nodes of a job meet the same one. "" is no constraint. Raises UserError."""
    if not text.strip():
        return (lambda features: True,)
    if len(text) > MAX_LENGTH:
        raise UserError(f"the constraint is longer than {MAX_LENGTH} characters", "shorten it")
    bracket = re.search(r"\[([^\[\]]*)\]", text)
    if bracket is None:
        return (_Parser(text, text).parse(),)
    found = []
    for choice in bracket[1].split("|"):
        one = f"{text[: bracket.start()]}({choice}){text[bracket.end() :]}"
        found.append(_Parser(one, text).parse())
    return tuple(found)


class _Parser:
    """Recursive descent; & binds closer than |, as in Slurm."""

    def __init__(self, text: str, whole: str) -> None:
        self._whole = whole
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def parse(self) -> Test:
        test = self._either()
        if self._at < len(self._tokens):
            raise self._error(f"{self._tokens[self._at]!r} is not expected there")
        return test

    def _either(self) -> Test:
        tests = [self._both()]
        while self._accept("|"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda features: any(test(features) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._accept("&") or self._accept(","):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda features: all(test(features) for test in tests)

    def _one(self) -> Test:
        if self._accept("("):
            test = self._either()
            if not self._accept(")"):
                raise self._error("a ')' is missing")
            return test
        if self._at >= len(self._tokens) or self._tokens[self._at] in "&|,()[]":
            raise self._error("a feature's name is missing")
        name = self._tokens[self._at]
        self._at += 1
        if "*" in name:
            raise self._error(f"counts such as {name!r} are not supported")
        return lambda features: name in features

    def _accept(self, token: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def _error(self, what: str) -> UserError:
        return UserError(
            f"--constraint={self._whole}: {what}", "write features with & | ( ), such as (a100|h100)&ib"
        )
