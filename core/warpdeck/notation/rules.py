"""A table of config.toml changed in place: comments, order and all else stay as their author wrote them.

A change is made in the lines of `[KIND.NAME]` and then read back: where the file says it in another way (an inline table, a
value over several lines), or would mean anything else than was asked for, it is refused and nothing is changed.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from warpdeck.errors import UserError

Value = str | int | float | list[str]
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What needs no quotes in a table's title."""
_TITLE = re.compile(r"\s*\[")
_BY_HAND = "change it in the file itself"


def values_of(text: str, kind: str, name: str) -> dict[str, Any]:
    """What `[KIND.NAME]` says; {} where there is no such table. Raises UserError."""
    try:
        found = tomllib.loads(text).get(kind, {}).get(name, {})
    except (tomllib.TOMLDecodeError, AttributeError) as error:
        raise UserError(f"config.toml cannot be read: {error}", _BY_HAND) from error
    return dict(found) if isinstance(found, dict) else {}


def with_values(text: str, kind: str, name: str, values: Mapping[str, Value | None]) -> str:
    """The text in which the table has these values; None takes one away. Raises UserError."""
    if not NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name", "use letters, digits, dashes and underscores")
    before = values_of(text, kind, name)
    wanted = {key: value for key, value in {**before, **values}.items() if value is not None}
    lines = text.splitlines()
    begin, end = _place(lines, kind, name)
    if begin == end:
        lines += ["", f"[{kind}.{name}]"] if lines else [f"[{kind}.{name}]"]
        begin, end = len(lines) - 1, len(lines)
    for key, value in values.items():
        end += _put(lines, (begin, end), key, value)
    return _checked(text, lines, kind, name, wanted)


def without_table(text: str, kind: str, name: str) -> str:
    """The text without that table. Raises UserError."""
    lines = text.splitlines()
    begin, end = _place(lines, kind, name)
    del lines[begin:end]
    return _checked(text, lines, kind, name, None)


def literal(value: Value) -> str:
    """As TOML has it."""
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _place(lines: list[str], kind: str, name: str) -> tuple[int, int]:
    """(the table's title, one past its last line); the same twice where it is not there."""
    title = re.compile(rf"\s*\[\s*{kind}\s*\.\s*([\"']?){re.escape(name)}\1\s*\]\s*(#.*)?")
    begin = next((at for at, line in enumerate(lines) if title.fullmatch(line)), None)
    if begin is None:
        return 0, 0
    end = next((at for at in range(begin + 1, len(lines)) if _TITLE.match(lines[at])), len(lines))
    while end > begin + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1  # what stands above the next title is that one's
    return begin, end


def _put(lines: list[str], table: tuple[int, int], key: str, value: Value | None) -> int:
    """One value into its line, or into a new one at the table's end; how many lines there are more."""
    begin, end = table
    line = re.compile(rf"(\s*{key}\s*=\s*)(\"[^\"]*\"|'[^']*'|\[[^\]]*\]|[^#\"'\[]*?)(\s*(?:#.*)?)")
    found = ((at, line.fullmatch(lines[at])) for at in range(begin + 1, end))
    at, match = next(((at, match) for at, match in found if match), (end, None))
    if value is None:
        del lines[at : at + bool(match)]
        return -bool(match)
    if match:
        lines[at] = f"{match[1]}{literal(value)}{match[3]}"
        return 0
    lines.insert(end, f"{key} = {literal(value)}")
    return 1


def _checked(text: str, lines: list[str], kind: str, name: str, wanted: dict[str, Any] | None) -> str:
    """The lines as a text, if they say what `text` says but for that table."""
    expected = copy.deepcopy(tomllib.loads(text))
    tables = expected.setdefault(kind, {})
    tables.pop(name, None)
    if wanted is not None:
        tables[name] = wanted
    changed = "\n".join(lines) + "\n" if lines else ""
    try:
        found = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        found = {}
    if found | {kind: found.get(kind, {})} != expected:
        raise UserError(f"{kind} {name} is written in config.toml in a way that no form changes", _BY_HAND)
    return changed
