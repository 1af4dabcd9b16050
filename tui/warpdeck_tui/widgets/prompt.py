"""A short text that is typed in the last line of a widget, as in less.

It takes keys and returns the finished text.
"""

from __future__ import annotations

from textual import events


class Prompt:
    """The prompt. Once opened, it takes every key until Enter, Escape, or a Backspace in an empty text."""

    def __init__(self, *, max_characters: int) -> None:
        self._max_characters = max_characters
        self._text: str | None = None
        self.sign = ""
        """The text before the input, which shows its purpose."""

    @property
    def text(self) -> str | None:
        """The text typed so far, or None while the prompt is closed."""
        return self._text

    def open(self, sign: str) -> None:
        self._text, self.sign = "", sign

    def take(self, event: events.Key) -> str:
        """Handle a key. Return the text if Enter has finished it, else ""."""
        assert self._text is not None
        finished = ""
        if event.key == "enter":
            finished, self._text = self._text, None
        elif event.key == "escape":
            self._text = None
        elif event.key == "backspace":
            self._text = self._text[:-1] if self._text else None
        elif event.character is not None and event.is_printable:
            self.paste(event.character)
        return finished

    def paste(self, text: str) -> None:
        """Insert a pasted text. Characters that cannot be printed are omitted."""
        if self._text is not None:
            self._text = (self._text + "".join(filter(str.isprintable, text)))[: self._max_characters]
