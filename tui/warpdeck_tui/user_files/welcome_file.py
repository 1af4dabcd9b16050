"""Whether the user has closed the welcome page: the file "welcome-closed" in the configuration folder."""

from __future__ import annotations

from pathlib import Path

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir

FILE = "welcome-closed"


def is_welcome_closed() -> bool:
    """Return whether the user has closed the page, so that it is never shown again."""
    return (Path(config_dir()) / FILE).exists()


def keep_welcome_closed() -> None:
    """Store that the user has closed the page. Raises UserError."""
    path = Path(config_dir()) / FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}", "Check its permissions") from error
