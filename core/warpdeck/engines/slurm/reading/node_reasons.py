"""Finds reasons of nodes that the text of scontrol does not tell clearly, and reads them from a table of sinfo.

scontrol prints the reason as it is, and further fields after it. A reason such as "fan Comment=hot" therefore looks like a
reason and a comment. sinfo ends each field with a mark, as `marked_table` describes. All functions are pure.
"""

from __future__ import annotations

import re

from .marked_table import Column, read_table

_COLUMNS = (Column("name", "%N", 0), Column("reason", "%E", 0))
_KEY = " Reason="
_SIGNATURE = re.compile(r" \[\S+@[0-9T:-]+\]")
_FIELD = re.compile(r"(?:^| )[A-Za-z_]+=")
NO_REASON = "none"


def unclear(text: str) -> list[str]:
    """Return the names of the nodes that have an ambiguous reason: it may end elsewhere in the line."""
    found = []
    for line in text.splitlines():
        if line.startswith("NodeName=") and _KEY in line and not _is_clear(line.partition(_KEY)[2]):
            found.append(name_of(line))
    return found


def name_of(line: str) -> str:
    """Return the name of the node in its line."""
    return line.removeprefix("NodeName=").partition(" ")[0]


def _is_clear(tail: str) -> bool:
    """Return whether the text after the key has one signature, no word like KEY=VALUE before it, and only fields after it.

    The further lines of a reason follow the signature of its first one, behind several spaces.
    """
    parts = _SIGNATURE.split(tail)
    return len(parts) == 2 and not _FIELD.search(parts[0]) and (not parts[1] or bool(_FIELD.match(parts[1])))


def sinfo_arguments(names: list[str], mark: str) -> list[str]:
    """Return the command that prints the reasons of these nodes."""
    form = "".join(f"{column.field}{mark}" for column in _COLUMNS)
    return ["sinfo", "--noheader", "--Node", "--all", f"--nodes={','.join(names)}", f"--format={form}"]


def read_reasons(text: str, mark: str) -> dict[str, str]:
    """Return the reasons by node. Raises MalformedTable."""
    found = {record["name"]: record["reason"] for record in read_table(text, _COLUMNS, mark)}
    return {name: "" if reason == NO_REASON else reason for name, reason in found.items()}


def without_reason(line: str, reason: str) -> str:
    """Return the line of a node without the text of its reason, so that this text begins no field."""
    return line.replace(f"{_KEY}{reason}", _KEY, 1)
