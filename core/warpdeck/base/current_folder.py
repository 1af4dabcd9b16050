"""The user's current folder."""

from __future__ import annotations

import os

from .errors import UserError


def current_folder() -> str:
    """Return the current folder. Raises UserError if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise UserError("the current folder does not exist any more", "change to one that does") from error
