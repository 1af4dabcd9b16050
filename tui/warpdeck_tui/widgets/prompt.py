"""A short text that is typed in a widget's own last line, as in less: keys in, the finished text out."""

from __future__ import annotations

from textual import events


class Prompt:
    """Closed until `open`; then it takes every key until Enter, Escape, or a Backspace with nothing left to take away."""

    def __init__(self, *, max_characters: int) -> None:
        self._max_characters = max_characters
        self._text: str | None = None
        self.sign = ""
        """What stands before the text: it says what the text is for."""

    @property
    def text(self) -> str | None:
        """What is typed so far; None while closed."""
        return self._text

    def open(self, sign: str) -> None:
        self._text, self.sign = "", sign

    def take(self, event: events.Key) -> str:
        """What a key does to it; the text, once Enter has finished it."""
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
        """Text that comes at once; what cannot be printed is left out."""
        if self._text is not None:
            self._text = (self._text + "".join(filter(str.isprintable, text)))[: self._max_characters]
