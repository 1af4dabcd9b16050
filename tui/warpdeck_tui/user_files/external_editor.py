"""Edits a text in the user's own editor, which replaces the app on the terminal until it ends."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES
from warpdeck_tui.terminal.lent_terminal import Lender, lend_terminal

FALLBACK_EDITOR = "vi"
"""POSIX systems always have it."""
LOOK_UP_S = 0.2
"""Seconds between two checks for signals while the editor runs."""


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
            code = _run([*shlex.split(command), path])
        except (OSError, ValueError) as error:
            raise UserError(f"Cannot run the editor {command!r}: {error}", "Set $EDITOR") from error
        if code:
            raise UserError(f"{command} exited with {code}. The text is unchanged", "Try again")
        return _read(path)


def _run(command: Sequence[str]) -> int:
    """Return the exit code of the program.

    If anything is raised meanwhile, for example by a signal handler, the program is killed. The function
    waits in short intervals, because the kernel may deliver a signal to another thread, and then the Python
    handler runs only when this thread continues.
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
        raise UserError(f"Cannot read the edited file: {error}", "Edit it again") from error
    if len(data) > MAX_SCRIPT_BYTES or "\0" in text:
        raise UserError("The edited file is too large or not a text file", "Edit it again")
    return text
