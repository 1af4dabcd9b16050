"""The "Log" pane of a job's page.

It shows one output of the job, follows it until the job ends, and reports errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import cast

from textual import work

from warpdeck.base.errors import UserError
from warpdeck.client.asyncio_client import GONE
from warpdeck.protocol.results import LogOpened
from warpdeck_tui.deck import Deck
from warpdeck_tui.widgets.log.view import LogView


class JobLog(LogView):
    """Shows one output of one job at a time.

    `changed` is called when the text about the output must be updated.
    """

    def __init__(self, key: str, *, id: str, channel: str, changed: Callable[[], None]) -> None:
        super().__init__(id=id)
        self._key = key
        self._changed = changed
        self.channel = channel
        """"out" or "err"."""
        self.node = ""
        """The node whose output is shown, for a job that writes on several nodes. "" means the first."""
        self.told = ""
        """The error message about this output, or ""."""
        self.written = False
        """Whether the output contains anything."""
        self.found_empty = False
        """Whether the output is known to be empty. Before it is opened, this is unknown."""
        self.received_bytes = 0
        """Number of bytes received since the output was opened."""

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    @work(exclusive=True, group="log")
    async def follow(self) -> None:
        """Show the output until the job ends.

        After a lost connection, start again when the controller is back.
        """
        channel, node = self.channel, self.node

        async def read(at_bytes: int, size_bytes: int, /) -> bytes:
            """Return a part of the file that the view needs besides its end."""
            try:
                return await self.deck.core.read_log(
                    self._key, channel=channel, node=node, at_bytes=at_bytes, size_bytes=size_bytes
                )
            except UserError as error:
                self._tell(error.message)
                return b""

        while True:
            self.clear()
            self.told, self.written, self.found_empty = "", False, False
            try:
                chunks = self.deck.core.follow_log(
                    self._key, channel=channel, node=node, on_opened=self._opened
                )
                async with contextlib.aclosing(chunks):
                    async for at_bytes, chunk in chunks:
                        if not self.written:
                            self.clear(at_bytes=at_bytes, read=read)
                            self.written, self.found_empty = True, False
                            self._changed()
                        self.received_bytes += len(chunk)
                        self.feed(chunk)
                return
            except UserError as error:
                if error.code != GONE:
                    self._tell(error.message)
                    return
            await self.deck.core.connected()

    def _opened(self, opened: LogOpened) -> None:
        self.found_empty = not opened.size_bytes
        self._changed()

    def _tell(self, words: str) -> None:
        self.told = words
        self._changed()
