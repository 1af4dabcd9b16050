"""What a word of another scheduler's directives means to sbatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

UMASK = "umask"
"""It stands where an option's name would: sbatch keeps the mask, and has no option for it."""
PASSED_OVER = ""
"""It stands where an option's name would: sbatch reads the word, and nothing comes of it."""


class Meaning(NamedTuple):
    """An option of sbatch and its value, None for none. With UMASK the octal mask, with PASSED_OVER the words."""

    option: str
    text: str | None


ValueOf = Callable[[str], str | None]
"""What an option has been given so far, None if nothing."""


def joined(before: str | None, after: str) -> str:
    """A list that grows by one."""
    return after if before is None else f"{before},{after}"
