"""A text in the user's own editor, in the app's place until it ends."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence

from textual.app import App

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES
from warpdeck_tui.terminal.lent_terminal import lend_terminal

FALLBACK_EDITOR = "vi"
"""POSIX has it."""
LOOK_UP_S = 0.2
"""How often a signal is looked for while the editor runs."""


def edited(app: App[None], text: str, *, name: str) -> str:
    """The text as it was left in the editor. Raises UserError; then nothing has changed."""
    return lend_terminal(app, lambda: edit(text, name=name))


def edit(text: str, *, name: str) -> str:
    """Runs $VISUAL, $EDITOR or vi on a file of that name in a folder that nobody else can read. Raises UserError."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or FALLBACK_EDITOR
    with tempfile.TemporaryDirectory(prefix="warpdeck-") as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            code = _run([*shlex.split(command), path])
        except (OSError, ValueError) as error:
            raise UserError(f"cannot run the editor {command!r}: {error}", "set $EDITOR") from error
        if code:
            raise UserError(f"{command} ended with {code}; the script is as before", "try again")
        return _read(path)


def _run(command: Sequence[str]) -> int:
    """Return the exit code of the program. Whatever is raised meanwhile, such as by a signal's handler, kills it.

    It is waited for in short pieces: the kernel may give a signal to another thread, and then the handler waits for this one.
    """
    with subprocess.Popen(command) as editor:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return editor.wait(timeout=LOOK_UP_S)
        except BaseException:
            editor.kill()
            raise


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the edited script cannot be read: {error}", "edit it again") from error
    if len(data) > MAX_SCRIPT_BYTES or "\0" in text:
        raise UserError("the edited text is no batch script", "a batch script only starts programs")
    return text
