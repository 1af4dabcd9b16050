"""Translations of other schedulers' directives into sbatch's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

UMASK = "umask"
"""Used instead of an option's name: sbatch stores the umask but has no option for it."""
PASSED_OVER = ""
"""Used instead of an option's name: sbatch reads the word, but it has no effect."""


class Meaning(NamedTuple):
    """An option of sbatch and its value, or None without a value. With UMASK it is the octal mask, with
    PASSED_OVER the ignored words.
    """

    option: str
    text: str | None


ValueOf = Callable[[str], str | None]
"""Returns the value that an option has so far, or None."""


def joined(before: str | None, after: str) -> str:
    """Append an element to a list separated by commas."""
    return after if before is None else f"{before},{after}"
