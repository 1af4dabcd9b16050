"""The size of the user's last interactive shell: the file "shell-options" in the configuration folder."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir

MAX_BYTES = 1000


def read_shell_choice() -> list[str] | None:
    """Return the options of the last shell, or None if none is stored."""
    try:
        with (Path(config_dir()) / "shell-options").open("rb") as file:
            return shlex.split(file.read(MAX_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def keep_shell_choice(options: Sequence[str]) -> None:
    """Store the options for the next shell. Raises UserError."""
    path = Path(config_dir()) / "shell-options"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(f"{shlex.join(options)}\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}", "Check its permissions") from error
