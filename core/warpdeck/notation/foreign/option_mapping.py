"""Translations of other schedulers' directives into sbatch's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from warpdeck.notation.options.given_options import GivenOption

IGNORE = "ignore-pbs"
"""The option that disables the directives of other schedulers."""
UMASK = "umask"
"""Used instead of an option's name: sbatch stores the umask but has no option for it."""
NO_EFFECT = ""
"""Used instead of an option's name: sbatch reads the word, but it has no effect."""


class MappedOption(NamedTuple):
    """An option of sbatch and its value, or None without a value. With UMASK the value is the octal mask, with
    NO_EFFECT the ignored words.
    """

    option: str
    text: str | None


def is_ignored(given: GivenOption) -> bool:
    """Return whether an entry stands for words that sbatch reads without an effect."""
    return given.option == NO_EFFECT and given.error is None


ValueOf = Callable[[str], str | None]
"""Returns the value that an option has so far, or None."""


def joined(before: str | None, after: str) -> str:
    """Append an element to a list separated by commas."""
    return after if before is None else f"{before},{after}"
