"""A Config as a flat list of keys with their TOML values, for display, for writing a file and for comparison.

`decode` reads the output of `write` back to the same Config.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from warpdeck.notation.config.toml_lines import Path

from .decode import entry_type, field_types, form_of, is_table
from .problems import dotted, quoted
from .table_types import Table
from .tables import Config

WIDTH = 44
"""Column at which remarks begin in a printed configuration."""


EMPTY_VALUES = ("", '""', "[]", '"UNLIMITED"')
"""Values that mean no limit, nobody or nothing."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the configuration with its value.

    `text` is its value in TOML, or "" if the value has no TOML form (no limit, all users). `default` means
    that the key was not set.
    """

    path: Path
    text: str
    default: bool


def entries(config: Config) -> list[Entry]:
    """Return all keys of all tables in the order of a file.

    Plain keys of a table come before its subtables.
    """
    return list(_entries(config, ()))


def write(config: Config, *, remarks: Mapping[Path, str] | None = None, defaults: bool = False) -> str:
    """Return the configuration as TOML text.

    `remarks` are comments after a key or a table's header. With `defaults`, keys that were not set are also
    written, unless the value means nothing.
    """
    lines: list[str] = []
    table: Path = ()
    for entry in entries(config):
        shown = not entry.default or (defaults and entry.text not in EMPTY_VALUES)
        opens = not entry.path[-1]  # An empty last key stands for a named table itself.
        if opens or (shown and entry.path[:-1] != table):
            table = entry.path[:-1]
            lines.append(f"{chr(10) if lines else ''}[{dotted(table)}]")
        if shown and not opens:
            line = f"{dotted(entry.path[-1:])} = {entry.text}"
            remark = (remarks or {}).get(entry.path, "")
            lines.append(f"{line:<{WIDTH}}  # {remark}" if remark else line)
    return "\n".join(lines) + "\n"


def changes(old: Config, new: Config) -> list[str]:
    """Return the differences as text, one line for each key or named table.

    Equal tables are skipped, so this is fast.
    """
    return list(_changes(old, new, ()))


def _changes(old: Table, new: Table, path: Path) -> Iterator[str]:
    for name, kind in field_types(type(old)).items():
        was, now, below = getattr(old, name), getattr(new, name), (*path, name)
        if was == now:
            continue
        if is_table(kind):
            yield from _changes(was, now, below)
        elif entry_type(kind) is not None:
            yield from _changed_entries(was, now, below)
        else:
            yield f"{dotted(below)}: {_written(kind, was) or 'none'} -> {_written(kind, now) or 'none'}"


def _changed_entries(old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> Iterator[str]:
    yield from (f"{dotted((*path, key))}: removed" for key in old if key not in new)
    yield from (f"{dotted((*path, key))}: added" for key in new if key not in old)
    for key in old:
        if key in new and isinstance(old[key], Table):
            yield from _changes(old[key], new[key], (*path, key))
        elif key in new and old[key] != new[key]:
            yield f"{dotted((*path, key))}: {_text(old[key])} -> {_text(new[key])}"


def _entries(table: Table, path: Path) -> Iterator[Entry]:
    inner: list[tuple[Path, Any, Any]] = []
    for name, kind in field_types(type(table)).items():
        value = getattr(table, name)
        if is_table(kind) or is_table(entry_type(kind)):
            inner.append(((*path, name), kind, value))
        elif entry_type(kind) is not None:
            for key, each in value.items():
                yield Entry(path=(*path, name, key), text=_text(each), default=False)
        else:
            default = value == _defaults(type(table))[name]
            yield Entry(path=(*path, name), text=_written(kind, value), default=default)
    for below, kind, value in inner:
        if is_table(kind):
            yield from _entries(value, below)
            continue
        for key, entry in value.items():
            yield Entry(path=(*below, key, ""), text="", default=False)
            yield from _entries(entry, (*below, key))


@functools.cache
def _defaults(kind: type[Table]) -> dict[str, Any]:
    return {
        field.name: field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        for field in msgspec.structs.fields(kind)
    }


def _written(kind: Any, value: Any) -> str:
    form = form_of(kind)
    if form is None:
        return _text(value)
    return quoted(form.write(value)) if value is not None or form.write(None) else ""


def _text(value: Any) -> str:
    """Return the TOML text of a plain value, or "" for None."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(int(value)) if value == int(value) else repr(value)
        case str():
            return quoted(value)
        case datetime():
            return value.isoformat()
        case _:
            return f"[{', '.join(_text(each) for each in value)}]"
