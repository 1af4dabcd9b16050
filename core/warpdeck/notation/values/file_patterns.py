"""File name patterns: %j, %A_%a, %x, %u, %N ..., with an optional width for numbers (%4j), and %% for a
percent sign.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PATTERN = re.compile(r"%(\d{0,2})([A-Za-z%])")


def resolve(pattern: str, values: Mapping[str, str]) -> str:
    """Return the file name. Unknown letters stay unchanged. A backslash anywhere disables patterns, as in
    Slurm.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def replace(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if letter == "%":
            return "%"
        value = values.get(letter)
        if value is None:
            return match[0]
        return value.zfill(int(width)) if width and value.isdigit() else value

    return _PATTERN.sub(replace, pattern)
