"""Node features: `--constraint` in Slurm's syntax.

    a&b  a,b   both                 a|b        either, and each node of the job may differ
    (a|b)&c    grouping             [a|b|c]    either, but the same one on every node of the job
    gpumem>=40G    every GPU of the node has at least this much memory, in decimal gigabytes as on its label

Counts (`a*2`) and nested brackets are rejected with an error.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from warpdeck.base.errors import UserError


class Traits(NamedTuple):
    """Properties of a node that a constraint can test: its features, and the memory of its smallest GPU (0
    without GPUs).
    """

    features: frozenset[str]
    gpu_mem_bytes: int = 0


Test = Callable[[Traits], bool]
"""Function that tests whether a node matches."""

MAX_LENGTH = 1024
MAX_DEPTH = 16
"""Maximum depth of nested parentheses. Each level uses stack frames, both when parsing and when testing a
node.
"""
_GPU_MEMORY = re.compile(r"gpumem>=(\d{1,5})(?:GB|G)", re.IGNORECASE)
_GB = 10**9
_TOKEN = re.compile(r"\s*([&|,()\[\]]|[^\s&|,()\[\]]+)")


def with_features(text: str, features: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the nodes, given with their features, that match the constraint. Raises UserError."""
    tests = parse_constraint(text, "features")
    traits = {name: Traits(own) for name, own in features.items()}
    return {name for name, own in traits.items() if any(test(own) for test in tests)}


def parse_constraint(text: str, option: str = "constraint") -> tuple[Test, ...]:
    """Return the alternatives of a constraint; all nodes of a job must match the same one.

    An empty text matches every node. Raises UserError.
    """
    if not text.strip():
        return (lambda node: True,)
    if len(text) > MAX_LENGTH:
        raise UserError(f"the constraint is longer than {MAX_LENGTH} characters", "shorten it")
    bracket = re.search(r"\[([^\[\]]*)\]", text)
    if bracket is None:
        return (_Parser(text, text, option).parse(),)
    found = []
    for choice in bracket[1].split("|"):
        one = f"{text[: bracket.start()]}({choice}){text[bracket.end() :]}"
        found.append(_Parser(one, text, option).parse())
    return tuple(found)


class _Parser:
    """Recursive-descent parser. & binds more tightly than |, as in Slurm."""

    def __init__(self, text: str, whole: str, option: str) -> None:
        self._whole = f"--{option}={whole}"
        self._tokens = _TOKEN.findall(text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Test:
        test = self._either()
        if self._at < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._at]!r}")
        return test

    def _either(self) -> Test:
        tests = [self._both()]
        while self._accept("|"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda node: any(test(node) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._accept("&") or self._accept(","):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda node: all(test(node) for test in tests)

    def _one(self) -> Test:
        if self._accept("("):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise self._error(f"more than {MAX_DEPTH} nested parentheses")
            test = self._either()
            if not self._accept(")"):
                raise self._error("missing ')'")
            self._depth -= 1
            return test
        if self._at >= len(self._tokens) or self._tokens[self._at] in "&|,()[]":
            raise self._error("missing feature name")
        name = self._tokens[self._at]
        self._at += 1
        if "*" in name:
            raise self._error(f"counts such as {name!r} are not supported")
        if any(sign in name for sign in "<>="):
            return self._gpu_memory(name)
        return lambda node: name in node.features

    def _gpu_memory(self, name: str) -> Test:
        found = _GPU_MEMORY.fullmatch(name)
        if found is None:
            raise self._error(f"{name!r} is not supported; the only comparison is gpumem>=40G")
        least = int(found[1]) * _GB
        return lambda node: node.gpu_mem_bytes >= max(1, least)

    def _accept(self, token: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def _error(self, what: str) -> UserError:
        return UserError(f"{self._whole}: {what}", "write features with & | ( ), such as (a100|h100)&ib")
