"""The parameters of a run: the values of its sweep, or the options of the program that it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from warpdeck.base.errors import UserError
from warpdeck.notation.request.sweep import parse_grid, sweep_of, values_of
from warpdeck.protocol.job_rows import JobDetail

MAX_PARAMETERS = 40
MAX_VALUE_CHARACTERS = 60
_OPTION = re.compile(r"--([A-Za-z][\w.-]*)(?:=|\s+)(?!--)(\"[^\"]*\"|'[^']*'|[^\s\\;|&]+)")
_ASSIGNED = re.compile(r"(?<=\s)([A-Za-z][\w./]*)=(\"[^\"]*\"|'[^']*'|[^\s\\;|&]+)")
"""Matches the overrides of Hydra, such as `optimizer.lr=0.1`."""


def parameters(detail: JobDetail) -> dict[str, str]:
    """Return the parameters of a job: those of its sweep before those of its commands."""
    swept = {**_single_values(detail.script), **dict(_pairs(detail.row.sweep.split()))}
    lines = [" ".join(detail.argv)] if detail.argv else detail.script.splitlines()
    found: dict[str, str] = {}
    for line in lines:
        command = f" {line.strip()}"
        if command.startswith((" #", " export ")):
            continue
        for pattern in (_OPTION, _ASSIGNED):
            found |= {name: _value(value) for name, value in pattern.findall(command)}
    kept = {name: value for name, value in found.items() if not value.startswith("$")}
    return dict(list({**swept, **kept, **swept}.items())[:MAX_PARAMETERS])


def _single_values(script: str) -> dict[str, str]:
    """Return the parameters with one value in the script's sweep, such as those of a study's trial. A row leaves them out."""
    try:
        grid = parse_grid(sweep_of(script))
    except UserError:
        return {}
    return values_of(tuple(each for each in grid if len(each.values) == 1), 0)


def _pairs(words: Iterable[str]) -> Iterable[tuple[str, str]]:
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield name, value


def _value(text: str) -> str:
    return text.strip("\"'")[:MAX_VALUE_CHARACTERS]


def varying(runs: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names of the parameters that have more than one value, in the order of their appearance."""
    names = dict.fromkeys(name for run in runs for name in run)
    return [name for name in names if len({run.get(name) for run in runs}) > 1]
