"""Creates files for the user: new, private to the user, and either complete or removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TextIO

from warpdeck.base.errors import UserError


def new_file(path: str) -> TextIO:
    """Create this file, readable only by its user, and open it for writing.

    Raises UserError. An existing file is never overwritten.
    """
    try:
        number = os.open(os.path.expanduser(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}", "Choose another name") from error
    return open(number, "w", encoding="utf-8", newline="")


@contextlib.contextmanager
def removed_unless_whole(path: str) -> Iterator[None]:
    """Remove the file if the code within this context fails.

    An incomplete table could be mistaken for the whole one.
    """
    try:
        yield
    except BaseException:
        os.unlink(os.path.expanduser(path))
        raise
