"""The last output of a terminal, which later viewers get when they attach."""

from __future__ import annotations

from warpdeck_agent.client.modes import TerminalModes

from .terminal_queries import without_queries

SCROLLBACK_BYTES = 1024 * 1024


class Scrollback:
    """The last bytes that a terminal has shown. Positions count all bytes since the terminal's start."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._modes_before = TerminalModes()
        """The terminal modes at the start of the scrollback, for example the alternate screen of an editor,
        or mouse reports.
        """
        self._answered = 0
        """Output up to this position was seen by a viewer that types, so terminal queries in it were already
        answered.
        """
        self.total = 0
        """Number of bytes that the terminal has shown so far."""

    @property
    def first(self) -> int:
        """The position of the first byte that is kept."""
        return self.total - len(self._data)

    def add(self, data: bytes) -> None:
        """Append output, and forget the oldest output if there is too much."""
        self.total += len(data)
        self._data += data
        excess = max(0, len(self._data) - SCROLLBACK_BYTES)
        self._modes_before.feed(bytes(self._data[:excess]))
        del self._data[:excess]

    def piece(self, position: int, max_bytes: int) -> bytes:
        """Return output from a position on that is not before `first`."""
        begin = position - self.first
        return bytes(self._data[begin : begin + max_bytes])

    def all(self) -> bytes:
        """Return all output that is kept."""
        return bytes(self._data)

    def note_answered(self, position: int) -> None:
        """Record that a viewer that types has seen the output up to `position`."""
        self._answered = max(self._answered, position)

    def replay(self, offset: int) -> bytes:
        """Return the output from `offset` on, for a new viewer.

        Terminal queries that were already answered are removed. If output from `offset` on is missing, the
        result begins with the sequences that set the terminal's modes.
        """
        begin = min(max(offset, self.first), self.total) - self.first
        unanswered = max(begin, self._answered - self.first)
        shown = without_queries(bytes(self._data[begin:unanswered])) + self._data[unanswered:]
        return self._modes_before.redo() + shown if offset < self.first else shown
