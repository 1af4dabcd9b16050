"""Where each key of a TOML text stands: key path -> line.

tomllib gives values without their places, and tomlkit, the one kept library that round-trips TOML, keeps none for its items
either (and is slow at large files). So this scanner walks a text that tomllib has already accepted; it needs to know only
where keys, strings and brackets begin and end, and trusts the rest.
"""

from __future__ import annotations

import re
import tomllib

from .problems import Path

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # multi-line basic: up to two quotes may stand before the closing three
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}\n#]+")


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, on which each table and key first stands. The text must be valid TOML."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted_to = 0
        self._line = 1
        self._lines: dict[Path, int] = {}

    def run(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                self._at += 2 if self._text.startswith("[[", self._at) else 1
                table = self._key(())
                self._at = self._text.index("]", self._at)
                while self._text.startswith("]", self._at):
                    self._at += 1
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self._lines

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        self._at = self._text.index("=", self._at) + 1
        self._skip(_SPACE)
        self._value(path)

    def _key(self, table: Path) -> Path:
        """Reads a dotted key and notes the line of each part that is new."""
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
            self._inside("}", path)
        else:
            self._skip(_SCALAR)

    def _inside(self, closing: str, path: Path) -> None:
        """An array's values, or an inline table's pairs."""
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
