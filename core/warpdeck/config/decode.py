"""Decode TOML text to a Config, or report every problem in it with its line.

Each key is converted separately, so that one wrong value hides no other problem. A text form is converted by
its TextForm, any other value by msgspec in strict mode. An unknown key is an error that names the most
similar known key.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
import tomllib
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.notation.config.toml_lines import Path, key_lines

from .check import cross_check
from .forms import TextForm
from .problems import MAX_PROBLEMS, ConfigError, Problem, quoted
from .table_types import Names, Table
from .tables import Config

T = TypeVar("T", bound=Table)

MAX_TEXT_BYTES = 16 * 1024 * 1024
"""Maximum size of a file. A configuration with ten thousand accounts and users has 2 MB."""

_TOML_PLACE = re.compile(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)")
_PLACE_IN_VALUE = re.compile(r" - at `\$[^`]*`$")


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """A valid configuration, the line of each key in its text, and warnings for its author."""

    config: Config
    lines: dict[Path, int] = {}
    warnings: tuple[Problem, ...] = ()


def decode(text: str, file: str) -> Decoded:
    """Decode a configuration. Raises ConfigError with all problems, which refer to the file name `file`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, (_syntax(str(error), text),)) from None
    config, found = convert(data)
    warnings: list[Problem] = []
    if not found:
        found, warnings = cross_check(config)
    lines = key_lines(text)
    if found:
        raise ConfigError(file, tuple(sorted(_with_lines(found, lines), key=lambda each: each.line)))
    return Decoded(config=config, lines=lines, warnings=_with_lines(warnings, lines))


def convert(data: object) -> tuple[Config, list[Problem]]:
    """Convert each table and key separately, without cross-checks.

    Each value with a problem is replaced by its default.
    """
    found: list[Problem] = []
    return _table(Config, data, (), found), found


def _syntax(message: str, text: str) -> Problem:
    match = _TOML_PLACE.fullmatch(message)
    if match is None:
        return Problem(path=(), text=message)
    line = int(match[2]) if match[2] else text.count("\n") + 1
    return Problem(path=(), text=f"invalid TOML: {match[1]}", line=line, column=int(match[3] or 0))


def _with_lines(problems: list[Problem], lines: dict[Path, int]) -> tuple[Problem, ...]:
    """Return the problems with the line of their key, or of the nearest enclosing table in the text."""
    converted = []
    for problem in problems[:MAX_PROBLEMS]:
        paths = (problem.path[:size] for size in range(len(problem.path), 0, -1))
        line = next((lines[path] for path in paths if path in lines), 0)
        converted.append(msgspec.structs.replace(problem, line=line))
    return tuple(converted)


def _table(kind: type[T], data: object, path: Path, found: list[Problem]) -> T:
    """Return the table with all valid values, and append the problems to `found`."""
    if not isinstance(data, dict):
        found.append(
            Problem(path=path, text=f"is a table: write [{'.'.join(path)}] with its keys on the next lines")
        )
        return kind()
    types = field_types(kind)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in types:
            found.append(Problem(path=(*path, key), text=_unknown(key, types)))
        else:
            _store_value(values, key, types[key], value, (*path, key), found)
    return kind(**values)


def _store_value(
    values: dict[str, Any], key: str, kind: Any, value: object, path: Path, found: list[Problem]
) -> None:
    """Store the converted value under `key`, or append its problem to `found`."""
    if is_table(kind):
        values[key] = _table(kind, value, path, found)
        return
    entry = entry_type(kind)
    if entry is not None and isinstance(value, dict):
        converted: dict[str, Any] = {}
        for name, inner in value.items():
            _store_value(converted, name, entry, inner, (*path, name), found)
        values[key] = converted
        return
    try:
        values[key] = _value(kind, value)
    except UserError as error:
        text = f"{error.message}; {error.hint}" if error.hint else error.message
        found.append(Problem(path=path, text=text))


def _value(kind: Any, value: object) -> Any:
    """Convert a single value. Raises UserError."""
    form = form_of(kind)
    if form is not None:
        if not isinstance(value, str):
            raise UserError(f"{value!r} is not a string", f'write it in quotes, such as "{form.example}"')
        return form.read(value)
    if get_origin(kind) is Literal and value not in get_args(kind):
        options = [str(option) for option in get_args(kind) if option]
        raise UserError(f"unknown value {value!r}", f"write {', '.join(options[:-1])} or {options[-1]}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{value!r} is not a finite number")
    if isinstance(value, str) and kind in (Names, Names | None):
        raise UserError(f"{value!r} is not a list", f"write [{quoted(value)}]")
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        message = _PLACE_IN_VALUE.sub("", str(error))
        raise UserError(f"{value!r} has the wrong type: {message[0].lower()}{message[1:]}") from None


def _unknown(key: str, types: dict[str, Any]) -> str:
    near = difflib.get_close_matches(key, types, n=1)
    return "unknown key" + (f"; did you mean {near[0]}?" if near else f"; known keys: {', '.join(types)}")


@functools.cache
def field_types(kind: type[Table]) -> dict[str, Any]:
    """Return the annotated type of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in msgspec.structs.fields(kind)}


def is_table(kind: Any) -> bool:
    """Return whether the type is a table."""
    return isinstance(kind, type) and issubclass(kind, Table)


def entry_type(kind: Any) -> Any:
    """Return the type of an entry if the type is a table of named entries, else None."""
    return get_args(kind)[1] if get_origin(kind) is dict else None


def form_of(kind: Any) -> TextForm | None:
    """Return the field's text form, or None if it is a plain TOML value."""
    if get_origin(kind) is Annotated:
        return next((each for each in get_args(kind)[1:] if isinstance(each, TextForm)), None)
    return None
