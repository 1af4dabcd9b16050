"""Changes of the site's rules in the app.

A new config.toml takes effect as a whole, or the previous one stays in effect.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from warpdeck.base.errors import UserError
from warpdeck.protocol import requests
from warpdeck.protocol.results import Reloaded

from .action_log import Undo
from .server_requests import Core

RELOAD = "warpdeck config reload"
"""Command for the action log that reloads the rules. The change of the file follows it as a comment."""


class RuleChanges:
    """The rules of the controller that `core` asks. All methods raise UserError."""

    def __init__(self, core: Core) -> None:
        self._path = Path(core.paths.config)
        self._core = core

    @property
    def name(self) -> str:
        return self._path.name

    def read(self) -> str:
        """Return the text of the rules, or "" if there is no file yet."""
        try:
            return self._path.read_text() if self._path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"Cannot read {self._path}: {error}", "Ask an administrator") from error

    async def use(self, text: str, *, before: str) -> Reloaded:
        """Write the text and have the controller read it. If that fails, the previous text is restored.

        `before` is the text that the change is based on. If the file was changed by somebody else meanwhile,
        it is not overwritten and UserError is raised. Problems in the new text are listed in the error's
        `details["problems"]`.
        """
        if await asyncio.to_thread(self.read) != before:
            raise UserError(
                f"{self._path} was changed by someone else in the meantime", "Check the file and try again"
            )
        await asyncio.to_thread(self._write, text)
        try:
            return await self._core.ask(requests.Reload())
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._write, before))
            raise

    def undo(self, before: str, *, after: str, what: str) -> Undo:
        """Return the undo of a change, which fails if the file has changed since.

        `what` describes the change.
        """
        return Undo(f"{RELOAD}  # undo: {what}", lambda: self.use(before, before=after))

    def _write(self, text: str) -> None:
        """Write the file by renaming, so that an incomplete file is never read."""
        new = self._path.with_name(self._path.name + ".new")
        try:
            new.touch(mode=0o600)
            new.write_text(text)
            new.rename(self._path)
        except OSError as error:
            raise UserError(f"Cannot write {self._path}: {error.strerror}", "Ask an administrator") from error
