"""What an import could not carry over, and why: for the administrator who goes through the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from warpdeck.base.errors import UserError

T = TypeVar("T")
Default = TypeVar("Default")


class Notes:
    """Remarks in the order in which they came up; the same remark about several things stands once, with all of them."""

    def __init__(self) -> None:
        self._about: dict[str, dict[str, None]] = {}

    def add(self, what: str, why: str) -> None:
        """`what` was not carried over as it stands, because `why`."""
        self._about.setdefault(why, {})[what] = None

    def lines(self) -> list[str]:
        """One sentence each."""
        return [f"{_named(list(about))}: {why}" for why, about in self._about.items()]

    def attempt(self, what: str, read: Callable[[str], T], text: str, otherwise: Default) -> T | Default:
        """What `read` makes of the text; where it raises UserError, `otherwise` and a remark."""
        try:
            return read(text)
        except UserError as error:
            self.add(what, f"left out: {error.message}")
            return otherwise


MAX_NAMED = 6
"""Things named in one remark."""


def _named(about: list[str]) -> str:
    rest = len(about) - MAX_NAMED
    return ", ".join(about[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
