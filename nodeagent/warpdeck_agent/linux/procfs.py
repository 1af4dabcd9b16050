"""Small files in /proc and /sys: they may be gone, unreadable, or hold any bytes."""

from __future__ import annotations

import os
from typing import Dict, Optional

READ_BYTES = 64 * 1024
"""More than nearly all of them hold."""
MOST_BYTES = 1 << 26
"""Of one file: a process may have 65,530 mappings (vm.max_map_count), each a line of its maps."""
MAX_DIGITS = 20
"""Of a number: the kernel's have 64 bits."""


def content(path: str, *, most_bytes: int) -> Optional[bytes]:
    """A file's bytes, and not many more than that; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    data = b""
    try:  # not open(), which asks the kernel six more questions for each of these
        while len(data) < most_bytes and (piece := os.read(descriptor, READ_BYTES)):
            data += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data


def text(path: str) -> str:
    """A file's text, "" if it cannot be read."""
    return (content(path, most_bytes=MOST_BYTES) or b"").decode("utf-8", "replace").strip()


def piece(path: str) -> str:
    """The text of a file that the kernel makes in one piece, such as a number in a group's folder: one read has all of it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def table(path: str) -> Dict[str, str]:
    """A file of lines "key value" or "key: value"; empty if it cannot be read."""
    return pairs(text(path))


def pairs(words: str) -> Dict[str, str]:
    """Of such lines; empty ones say nothing."""
    found: Dict[str, str] = {}
    for line in words.splitlines():
        key, *rest = line.split(None, 1) or [""]
        found[key.rstrip(":")] = rest[0] if rest else ""
    return found


def entry(words: str, key: str) -> int:
    """The number in the line "key value", 0 where there is none: most of such a file nobody asks for."""
    for line in words.splitlines():
        name, _, rest = line.partition(" ")
        if name == key:
            return number(rest)
    return 0


def number(words: str) -> int:
    """The number that the words begin with ("128 kB"), 0 for anything else ("max", "")."""
    first = words.split(None, 1)[0] if words else ""
    return int(first) if first.isdecimal() and len(first) <= MAX_DIGITS else 0


def write(path: str, words: str) -> None:
    """One write to a control file. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, words.encode())
    finally:
        os.close(descriptor)
