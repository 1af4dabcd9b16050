"""New values for parameters of a recorded request, as in `warpdeck rerun 12 --set lr=3e-4`.

`with_value` decides. A parameter is at one of these places:

- a sweep of the script in which it has one value;
- the arguments of the script, or the words of the command: `--lr 0.1`, `--lr=0.1` and `lr=0.1`;
- a line of a shell script that is not a comment, in the same three forms.

The form is kept and only the value is replaced. A sweep goes before the other places, because commands read its
variables. A parameter at no place or at several places is refused, and so is one with several values in a sweep.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Request

from .sweep import is_shell, parse_grid, sweep_of, with_sweep, without_sweep

_SETTING = re.compile(r"([A-Za-z_][\w./-]*)=(.*)", re.DOTALL)
_VALUE = r"""("[^"\\`]*"|'[^']*'|(?!--)[\w.,:/+@%=^~\[\]{}$-]+)(?=[\s;|&)]|\Z)"""
"""Matches a value in a shell line. Other values, such as the output of a command, are not replaced."""


class _Span(NamedTuple):
    """The range of a value in a text."""

    begin: int
    end: int


def with_values(request: Request, settings: Sequence[str], *, label: str) -> Request:
    """Return the request with the new values, which are written NAME=VALUE. Raises UserError."""
    named = [_setting(text) for text in settings]
    for name, value in named:
        if [each for each, _ in named].count(name) > 1:
            raise UserError(f"the parameter {name} is set twice", "give it one value")
        request = with_value(request, name, value, label=label)
    return request


def with_value(request: Request, name: str, value: str, *, label: str) -> Request:
    """Return the request with the new value of one parameter. `label` names its job. Raises UserError."""
    if _is_swept(request.script, name, label):
        words = [
            shlex.quote(f"{name}={value}") if word.partition("=")[0] == name else shlex.quote(word)
            for word in shlex.split(sweep_of(request.script))
        ]
        return msgspec.structs.replace(request, script=with_sweep(request.script, " ".join(words)))
    argv, script_args = (
        [*_changed_words(words, name, value)] for words in (request.argv, request.script_args)
    )
    spans = [*_spans(request.script, name)]
    count = len(argv) + len(script_args) + len(spans)
    if count == 0:
        raise UserError(
            f"job {label} has no parameter {name} in its command, its arguments or its script",
            f"`warpdeck show {label}` prints them; `warpdeck submit --code-of {label}` runs another command with its code",
        )
    if count > 1:
        raise UserError(
            f"the parameter {name} of job {label} has {count} values in its command, arguments and script",
            f"use `warpdeck submit --code-of {label}` with a changed script",
        )
    if spans:
        return _with_script(request, spans[0], value, name=name)
    if argv:
        return msgspec.structs.replace(
            request, argv=argv[0], submit_line=_with_tail(request.submit_line, request.argv, argv[0])
        )
    line = _with_tail(request.submit_line, request.script_args, script_args[0])
    return msgspec.structs.replace(request, script_args=script_args[0], submit_line=line)


def _setting(text: str) -> tuple[str, str]:
    found = _SETTING.fullmatch(text)
    if found is None or not found[2]:
        raise UserError(f"{text!r} sets no parameter", "write NAME=VALUE, as in --set lr=3e-4")
    if not found[2].isprintable():
        raise UserError(f"the value of {found[1]} contains control characters", "remove them")
    return found[1], found[2]


def _is_swept(script: str, name: str, label: str) -> bool:
    """Return whether the script has a sweep with this parameter. Raises UserError if it has several values."""
    try:
        grid = parse_grid(sweep_of(script))
    except UserError:
        return False  # the lines were edited by hand and are ordinary lines of the script
    values = next((each.values for each in grid if each.name == name), ())
    if len(values) > 1:
        raise UserError(
            f"the parameter {name} of job {label} has {len(values):,} values in a sweep",
            "submit the script with another --sweep",
        )
    return bool(values)


def _changed_words(words: Sequence[str], name: str, value: str) -> Iterator[tuple[str, ...]]:
    """Yield the words with the new value, once for each place of the parameter."""
    for at, word in enumerate(words):
        key, equals, _ = word.partition("=")
        if equals and key in (name, f"--{name}"):
            yield (*words[:at], f"{key}={value}", *words[at + 1 :])
        elif word == f"--{name}" and at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield (*words[: at + 1], value, *words[at + 2 :])


def _spans(script: str, name: str) -> Iterator[_Span]:
    """Yield the places of the parameter's values in a shell script."""
    if not is_shell(script.partition("\n")[0]):
        return
    swept = {*script.split("\n")} - {*without_sweep(script).split("\n")}
    pattern = re.compile(rf"(?:(?<=\s)|^)(?:--{re.escape(name)}(?:=|[ \t]+)|{re.escape(name)}=){_VALUE}")
    begin = 0
    for line in script.split("\n"):
        if not line.lstrip().startswith("#") and line not in swept:
            for found in pattern.finditer(line):
                yield _Span(begin + found.start(1), begin + found.end(1))
        begin += len(line) + 1


def _with_script(request: Request, span: _Span, value: str, *, name: str) -> Request:
    """Return the request with a new value at this place of its script, and in the recorded text of --wrap.

    Raises UserError if the place is inside quotes and the value needs quotes of its own.
    """
    script = request.script
    before = script[: span.begin].rpartition("\n")[2]
    if shlex.quote(value) != value and (before.count('"') % 2 or before.count("'") % 2):
        raise UserError(
            f"the parameter {name} stands inside quotes, and {value!r} needs quotes of its own",
            "submit a changed script",
        )
    changed = script[: span.begin] + shlex.quote(value) + script[span.end :]
    old, new = (text.partition("\n")[2].removesuffix("\n") for text in (script, changed))
    try:
        words = shlex.split(request.submit_line)
    except ValueError:
        words = []
    line = request.submit_line
    if any(word in (old, f"--wrap={old}") for word in words):
        replaced = {old: new, f"--wrap={old}": f"--wrap={new}"}
        line = shlex.join(replaced.get(word, word) for word in words)
    return msgspec.structs.replace(request, script=changed, submit_line=line)


def _with_tail(line: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Return the recorded command line, which ends with the arguments, with the new arguments."""
    tail = shlex.join(old)
    return line.removesuffix(tail) + shlex.join(new) if line.endswith(tail) else line
