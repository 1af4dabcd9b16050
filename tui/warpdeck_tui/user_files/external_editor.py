"""Edits a text in the user's own editor, which replaces the app on the terminal until it ends."""

from __future__ import annotations

import os
import shlex
import tempfile

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES
from warpdeck_tui.terminal.lent_program import run_program
from warpdeck_tui.terminal.lent_terminal import Lender, lend_terminal

FALLBACK_EDITOR = "vi"
"""POSIX systems always have it."""


def edited(app: Lender, text: str, *, name: str) -> str:
    """Return the text as the user left it in the editor. Raises UserError; then nothing has changed."""
    return lend_terminal(app, lambda: edit(text, name=name))


def edit(text: str, *, name: str) -> str:
    """Run $VISUAL, $EDITOR or vi on a temporary file with this name, and return the edited text.

    The file is in a folder that no other user can read. Raises UserError.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or FALLBACK_EDITOR
    with tempfile.TemporaryDirectory(prefix="warpdeck-") as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            code = run_program([*shlex.split(command), path])
        except (OSError, ValueError) as error:
            raise UserError(f"Cannot run the editor {command!r}: {error}", "Set $EDITOR") from error
        if code:
            raise UserError(f"{command} exited with {code}. The text is unchanged", "Try again")
        return _read(path)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read the edited file: {error}", "Edit it again") from error
    if len(data) > MAX_SCRIPT_BYTES or "\0" in text:
        raise UserError("The edited file is too large or not a text file", "Edit it again")
    return text
