"""Parses a unified diff of git into files, hunks and lines with their numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_LINES = 20_000
"""Largest number of lines of a diff that are shown."""
CONTEXT_LINES = 3
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_HEADER = re.compile(r'diff --git (?:"?a/.*"?) "?b/(.*?)"?$')
_ESCAPED = re.compile(r"\\([0-7]{3}|.)")
_ESCAPES = {"t": 9, "n": 10, "r": 13, "b": 8, "f": 12, "v": 11, "a": 7}


class DiffLine(NamedTuple):
    """A line. `sign` is "+", "-" or " ". The numbers count from 1; None means that there is no number."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None


class Hunk(NamedTuple):
    """Adjacent lines. `where` is the function or class that contains them, if git knows it."""

    where: str
    lines: tuple[DiffLine, ...]


class FileDiff(NamedTuple):
    """The differences of one file, or of a group of options. `note` says what happened to the file as a whole."""

    path: str
    note: str = ""
    hunks: tuple[Hunk, ...] = ()

    def count(self, sign: str) -> int:
        """Return the number of added ("+") or removed ("-") lines."""
        return sum(line.sign == sign for hunk in self.hunks for line in hunk.lines)


class Parsed(NamedTuple):
    """The files of a diff. `is_cut` is true if the diff has more lines than are shown. `note` is shown with the files."""

    files: tuple[FileDiff, ...] = ()
    is_cut: bool = False
    note: str = ""


def parse(diff: str) -> Parsed:
    """Return the files of a unified diff of git."""
    reader = _Reader()
    lines = diff.split("\n")
    for line in lines[:MAX_LINES]:
        reader.take(line)
    reader.end_file()
    return Parsed(tuple(reader.files), len(lines) > MAX_LINES)


class _Reader:
    """Reads a diff line by line."""

    def __init__(self) -> None:
        self.files: list[FileDiff] = []
        self._path = self._note = self._where = ""
        self._hunks: list[Hunk] = []
        self._lines: list[DiffLine] | None = None
        """The lines of the current hunk, or None in the headers of a file."""
        self._old = self._new = 0

    def take(self, line: str) -> None:
        hunk = _HUNK.match(line)
        if line.startswith("diff --git "):
            self.end_file()
            named = _HEADER.match(line)
            self._path = unquoted(named[1]) if named else line.removeprefix("diff --git ")
        elif hunk is not None:
            self._end_hunk()
            self._old, self._new, self._where, self._lines = int(hunk[1]), int(hunk[2]), hunk[3], []
        elif self._lines is None:
            self._take_header(line)
        elif line[:1] in ("+", "-", " "):
            self._take_line(line[0], line[1:])

    def _take_header(self, line: str) -> None:
        for begin, note in (
            ("new file mode", "new file"),
            ("deleted file mode", "deleted"),
            ("Binary files", "binary file"),
        ):
            if line.startswith(begin):
                self._note = note
        if line.startswith("rename from "):
            self._note = f"renamed from {unquoted(line.removeprefix('rename from ').strip(chr(34)))}"
        if line.startswith("new mode ") and not self._note:
            self._note = "executable" if line.endswith("755") else "not executable"

    def _take_line(self, sign: str, text: str) -> None:
        assert self._lines is not None
        old = None if sign == "+" else self._old
        new = None if sign == "-" else self._new
        self._old += sign != "+"
        self._new += sign != "-"
        self._lines.append(DiffLine(sign, text, old, new))

    def _end_hunk(self) -> None:
        if self._lines:
            self._hunks.append(Hunk(self._where, tuple(self._lines)))
        self._lines = None

    def end_file(self) -> None:
        """Finish the current file, if there is one."""
        self._end_hunk()
        if self._path:
            self.files.append(FileDiff(self._path, self._note, tuple(self._hunks)))
        self._path = self._note = ""
        self._hunks = []


def unquoted(path: str) -> str:
    """Return a path without the escape sequences that git writes for unusual characters."""
    if "\\" not in path:
        return path
    data, at = bytearray(), 0
    for found in _ESCAPED.finditer(path):
        data += path[at : found.start()].encode("utf-8", "surrogateescape")
        code = found[1]
        data.append(int(code, 8) & 0xFF if code.isdigit() else _ESCAPES.get(code, ord(code) & 0xFF))
        at = found.end()
    return (bytes(data) + path[at:].encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def text_diff(path: str, before: str, after: str) -> FileDiff | None:
    """Return the differences of two texts as those of a file, or None if they are equal."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    hunks = [
        Hunk("", tuple(_lines_of(group, old, new)))
        for group in matcher.get_grouped_opcodes(CONTEXT_LINES)
        if any(tag != "equal" for tag, *_ in group)
    ]
    return FileDiff(path, "", tuple(hunks)) if hunks else None


def _lines_of(
    group: Iterable[tuple[str, int, int, int, int]], old: Sequence[str], new: Sequence[str]
) -> Iterable[DiffLine]:
    for tag, old_begin, old_end, new_begin, new_end in group:
        if tag == "equal":
            for step in range(old_end - old_begin):
                yield DiffLine(" ", old[old_begin + step], old_begin + step + 1, new_begin + step + 1)
            continue
        for at in range(old_begin, old_end):
            yield DiffLine("-", old[at], at + 1)
        for at in range(new_begin, new_end):
            yield DiffLine("+", new[at], None, at + 1)


def fact_diff(title: str, facts: Iterable[tuple[str, str, str]]) -> FileDiff | None:
    """Return changed facts (name, old value, new value) as the differences of a file.

    A value that is "" does not exist. Return None if there are none.
    """
    lines: list[DiffLine] = []
    for name, before, after in facts:
        lines += [DiffLine("-", f"{name}{before}")] * bool(before)
        lines += [DiffLine("+", f"{name}{after}")] * bool(after)
    return FileDiff(title, "", (Hunk("", tuple(lines)),)) if lines else None
