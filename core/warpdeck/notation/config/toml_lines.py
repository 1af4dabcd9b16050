"""Positions in a TOML text: the line of each key path, and the range of its value.

tomllib and tomlkit return values without positions. This scanner processes a text that tomllib has already
accepted, so it only needs to recognize where keys, strings and brackets begin and end.
"""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

Path = tuple[str, ...]
"""A key with its parent tables, for example ("partitions", "gpu", "max_time")."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # Multi-line basic string: up to two quotes may precede the closing three.
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}\n#]+")


class Header(NamedTuple):
    """A header line [PATH]. `at` is the position of its bracket, and `below` the position after the
    header.
    """

    path: Path
    at: int
    below: int


class ValuePosition(NamedTuple):
    """Positions of a value: start of its key, start of the value, end of the value, and whether it is in an
    inline table.
    """

    key: int
    begin: int
    end: int
    in_braces: bool


class Positions(NamedTuple):
    """The headers in order, without those of arrays of tables, and the values."""

    headers: list[Header]
    values: dict[Path, ValuePosition]


def key_lines(text: str) -> dict[Path, int]:
    """Return the line, counted from 1, of the first occurrence of each table and key. The text must be valid
    TOML.
    """
    return _Scanner(text).run()


def positions(text: str) -> Positions:
    """Return the positions of headers and values. The text must be valid TOML."""
    scanner = _Scanner(text)
    scanner.run()
    return Positions(scanner.headers, scanner.values)


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted_to = 0
        self._line = 1
        self._lines: dict[Path, int] = {}
        self._braces = 0
        self.headers: list[Header] = []
        self.values: dict[Path, ValuePosition] = {}

    def run(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._read_header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self._lines

    def _read_header(self) -> Path:
        at, is_array = self._at, self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        table = self._key(())
        self._at = self._text.index("]", self._at)
        while self._text.startswith("]", self._at):
            self._at += 1
        if not is_array:
            self.headers.append(Header(table, at, self._at))
        return table

    def _pair(self, table: Path) -> None:
        key = self._at
        path = self._key(table)
        self._at = self._text.index("=", self._at) + 1
        self._skip(_SPACE)
        begin = self._at
        self._value(path)
        end = begin + len(self._text[begin : self._at].rstrip())
        self.values[path] = ValuePosition(key, begin, end, self._braces > 0)

    def _key(self, table: Path) -> Path:
        """Read a dotted key, and record the line of each part that is new."""
        path = table
        while True:
            self._skip(_SPACE)
            line = self._line_here()
            path = (*path, self._word())
            self._lines.setdefault(path, line)
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return path
            self._at += 1

    def _word(self) -> str:
        bare = _BARE_KEY.match(self._text, self._at)
        if bare is not None:
            self._at = bare.end()
            return bare[0]
        string = self._skip(_STRING)
        return str(tomllib.loads(f"key = {string}")["key"])

    def _value(self, path: Path) -> None:
        first = self._text[self._at]
        if first in "\"'":
            self._skip(_STRING)
        elif first == "[":
            self._inside("]", path)
        elif first == "{":
            self._braces += 1
            self._inside("}", path)
            self._braces -= 1
        else:
            self._skip(_SCALAR)

    def _inside(self, closing: str, path: Path) -> None:
        """Read the values of an array, or the pairs of an inline table."""
        self._at += 1
        self._skip(_BLANK)
        while self._text[self._at] != closing:
            if self._text[self._at] == ",":
                self._at += 1
            elif closing == "]":
                self._value(path)
            else:
                self._pair(path)
            self._skip(_BLANK)
        self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None, "the text is valid TOML"
        self._at = match.end()
        return match[0]

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line
