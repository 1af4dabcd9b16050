r"""Read slurm.conf, gres.conf and topology.conf as lists of lines with KEY=VALUE pairs.

Source: slurm.conf(5).

Keys are not case-sensitive. `#` begins a comment unless it is written as `\#`. A `\` at the end of a line
continues it on the next line. Values may be in double quotes. `Include FILE` inserts another file, with a
path relative to the including file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import msgspec

from warpdeck.base.errors import UserError

MAX_FILES = 200
"""Maximum number of included files; more indicates a circular Include."""
MAX_FILE_BYTES = 32 * 1024 * 1024

_COMMENT = re.compile(r"(?<!\\)#.*")
_PAIR = re.compile(r"""\s*([A-Za-z_][\w.\-]*)\s*[+\-]?=\s*("[^"]*"|'[^']*'|\S*)""")
_INCLUDE = re.compile(r"\s*include\s+(\S.*?)\s*", re.IGNORECASE)

ReadFile = Callable[[str], str]


class ConfLine(msgspec.Struct, frozen=True, kw_only=True):
    """A logical line: its first line number, and its pairs by lower-case key.

    `spelled` contains the keys in their original spelling.
    """

    file: str
    number: int
    pairs: dict[str, str]
    spelled: dict[str, str]

    @property
    def place(self) -> str:
        """Position of the line as "file:line"."""
        return f"{self.file}:{self.number}"


def read_conf(path: str, read_file: ReadFile | None = None) -> list[ConfLine]:
    """Return all lines in order, with included files in place.

    Raises UserError, which names file and line.
    """
    return _ConfReader(read_file or read_text).read(path)


def read_text(path: str) -> str:
    """Return a file's text.

    Bytes that are not UTF-8 are replaced; they can only occur in comments and descriptions.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {os.strerror(error.errno or 0)}", "check its name and permissions"
        ) from error
    if len(raw) > MAX_FILE_BYTES:
        raise UserError(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB", "is this the right file?")
    return raw.decode("utf-8", "replace")


class _ConfReader:
    def __init__(self, read_file: ReadFile) -> None:
        self._read_file = read_file
        self._files = 0

    def read(self, path: str) -> list[ConfLine]:
        self._files += 1
        if self._files > MAX_FILES:
            raise UserError(f"{path}: more than {MAX_FILES} included files", "check for a circular Include")
        lines: list[ConfLine] = []
        for number, text in _logical_lines(self._read_file(path)):
            include = _INCLUDE.fullmatch(text)
            if include is not None and "=" not in text.split()[0]:
                lines.extend(self.read(os.path.join(os.path.dirname(path), include[1].strip("\"'"))))
            elif text.strip():
                lines.append(_parse(text, path, number))
        return lines


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number of the first physical line, text without comment) of each logical line."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        kept = _COMMENT.sub("", line).rstrip()
        first = first if begun else number
        if kept.endswith("\\"):
            begun += kept[:-1]
            continue
        yield first, (begun + kept).replace("\\#", "#")
        begun = ""
    if begun:
        yield first, begun


def _parse(text: str, file: str, number: int) -> ConfLine:
    pairs: dict[str, str] = {}
    spelled: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            rest = text[at:].strip()
            if not rest:
                break
            raise UserError(f"{file}:{number}: {rest.split()[0]!r} is not KEY=VALUE", "correct the line")
        at = match.end()
        pairs[match[1].lower()] = match[2].strip("\"'")
        spelled[match[1].lower()] = match[1]
    return ConfLine(file=file, number=number, pairs=pairs, spelled=spelled)
