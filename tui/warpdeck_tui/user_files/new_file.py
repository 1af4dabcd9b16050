"""A file that a user asks the app to write: new, his alone, and whole or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TextIO

from warpdeck.base.errors import UserError


def new_file(path: str) -> TextIO:
    """Makes that file, readable by its user alone. Raises UserError; nothing that is there is written over."""
    try:
        number = os.open(os.path.expanduser(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "choose another name") from error
    return open(number, "w", encoding="utf-8", newline="")


@contextlib.contextmanager
def removed_unless_whole(path: str) -> Iterator[None]:
    """Half a table would be taken for all of it."""
    try:
        yield
    except BaseException:
        os.unlink(os.path.expanduser(path))
        raise
