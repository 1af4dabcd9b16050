"""Remarks about settings that an import could not convert, for the administrator who reviews the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from warpdeck.base.errors import UserError

T = TypeVar("T")
D = TypeVar("D")


class ImportNotes:
    """Remarks in the order in which they were made.

    A remark about several settings is listed once, with all of them.
    """

    def __init__(self) -> None:
        self._about: dict[str, dict[str, None]] = {}

    def add(self, setting: str, reason: str) -> None:
        """Record that this setting could not be converted unchanged, for this reason."""
        self._about.setdefault(reason, {})[setting] = None

    def lines(self) -> list[str]:
        """Return the remarks, one sentence each."""
        return [f"{_named(list(about))}: {reason}" for reason, about in self._about.items()]

    def attempt(self, setting: str, read: Callable[[str], T], text: str, default: D) -> T | D:
        """Return the result of `read`. If it raises UserError, add a remark and return `default`."""
        try:
            return read(text)
        except UserError as error:
            self.add(setting, f"left out: {error.message}")
            return default


MAX_NAMED = 6
"""Maximum number of settings that are named in one remark."""


def _named(about: list[str]) -> str:
    rest = len(about) - MAX_NAMED
    return ", ".join(about[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
