"""The site's rules as the app changes them: another config.toml is in force whole, or the one before still is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from warpdeck.base.errors import UserError
from warpdeck.client.site_queries import Reloaded, Site

from .action_log import Undo

RELOAD = "warpdeck config reload"
"""Of the command log: what has the rules read; what was changed in the file stands behind it as a comment."""


class Rules:
    """Of the controller that `site` asks. All calls raise UserError."""

    def __init__(self, path: str, site: Site) -> None:
        self._path = Path(path)
        self._site = site

    @property
    def name(self) -> str:
        return self._path.name

    def read(self) -> str:
        """ "" where there is no file yet."""
        try:
            return self._path.read_text() if self._path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self._path} cannot be read: {error}", "ask whoever runs the site") from error

    async def use(self, text: str, *, before: str) -> Reloaded:
        """Writes it and has it read; what is wrong with it stands in the error's `details["problems"]`. `before` is what it
        was made from: what somebody else has written since then is not written over."""
        if await asyncio.to_thread(self.read) != before:
            raise UserError(
                f"{self._path} was changed by somebody else meanwhile", "look at it and try again"
            )
        await asyncio.to_thread(self._write, text)
        try:
            return await self._site.reload()
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._write, before))
            raise

    def undo(self, before: str, *, after: str, what: str) -> Undo:
        """How that change is taken back while nothing else has been changed. `what`: the change, in words."""
        return Undo(f"{RELOAD}  # as before {what}", lambda: self.use(before, before=after))

    def _write(self, text: str) -> None:
        """By rename, so that no half file is ever read."""
        new = self._path.with_name(self._path.name + ".new")
        try:
            new.touch(mode=0o600)
            new.write_text(text)
            new.rename(self._path)
        except OSError as error:
            raise UserError(
                f"{self._path} cannot be written: {error.strerror}", "ask whoever runs the site"
            ) from error
