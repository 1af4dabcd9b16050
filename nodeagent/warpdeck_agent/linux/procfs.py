"""Reads small files in /proc and /sys, which may be gone, unreadable, or hold any bytes."""

from __future__ import annotations

import os
from typing import Dict, Optional

READ_BYTES = 64 * 1024
"""Size of one read. Nearly all of the files are smaller."""
MOST_BYTES = 1 << 26
"""The most bytes read from one file. A process may have 65,530 mappings (vm.max_map_count), each a line of
its maps.
"""
MAX_DIGITS = 20
"""The most digits of a number; the kernel's numbers have 64 bits."""


def content(path: str, *, most_bytes: int) -> Optional[bytes]:
    """Return a file's bytes, at most `most_bytes` plus one read; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    data = b""
    try:  # os.read is used because open() makes six more system calls for each file
        while len(data) < most_bytes and (piece := os.read(descriptor, READ_BYTES)):
            data += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data


def text(path: str) -> str:
    """Return a file's text, "" if it cannot be read."""
    return (content(path, most_bytes=MOST_BYTES) or b"").decode("utf-8", "replace").strip()


def piece(path: str) -> str:
    """Return the text of a file that the kernel produces with one read.

    An example is a number in a cgroup's folder.
    """
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
    """Return a file of lines "key value" or "key: value" as a dict; empty if it cannot be read."""
    return pairs(text(path))


def pairs(lines: str) -> Dict[str, str]:
    """Return lines "key value" or "key: value" as a dict. An empty line becomes an empty key."""
    found: Dict[str, str] = {}
    for line in lines.splitlines():
        key, *rest = line.split(None, 1) or [""]
        found[key.rstrip(":")] = rest[0] if rest else ""
    return found


def entry(lines: str, key: str) -> int:
    """Return the number in the line "key value", 0 if there is none. It does not parse the other lines."""
    for line in lines.splitlines():
        name, _, rest = line.partition(" ")
        if name == key:
            return number(rest)
    return 0


def number(value: str) -> int:
    """Return the number at the start of a text like "128 kB", 0 for anything else ("max", "")."""
    first = value.split(None, 1)[0] if value else ""
    return int(first) if first.isdecimal() and len(first) <= MAX_DIGITS else 0


def write(path: str, value: str) -> None:
    """Write to a control file with one write. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
