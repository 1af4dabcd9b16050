"""Change config.toml on disk, completely or not at all.

The previous version is kept next to the file. A file is not changed if it has edits that are not in force
yet, or if the result would be invalid.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence

from warpdeck.base.errors import UserError
from warpdeck.model.config_edit import Amendment
from warpdeck.notation.config.toml_edit import apply_changes

from .decode import decode
from .load import read_text
from .tables import Config

BACKUP_SUFFIX = ".before"
"""Suffix of the copy with the content before the last change."""
NEW_SUFFIX = ".new"
MODE = 0o600
"""Mode of a newly made file; an existing file keeps its mode."""


def rewrite(path: str, changes: Sequence[Amendment], *, in_force: Config) -> None:
    """Apply the changes to the file.

    Raises UserError, or ConfigError with the problems that the result would have.
    """
    target = os.path.realpath(path)
    try:
        text = read_text(target)
    except FileNotFoundError:
        text = ""
    if decode(text, path).config != in_force:
        raise UserError(
            f"{path} has changes that are not loaded yet", "load them first with `warpdeck config reload`"
        )
    changed = apply_changes(text, changes)
    decode(changed, path)
    if changed != text:
        try:
            _replace(target, changed)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}", "nothing was changed") from error


def _replace(target: str, text: str) -> None:
    """Replace the file by a rename, so that no reader sees a partial file. Its owner and mode are kept."""
    new = target + NEW_SUFFIX
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if os.path.exists(target):
            status = os.stat(target)
            os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, status.st_mode & 0o7777)
            _back_up(target)
        os.fsync(descriptor)
    os.rename(new, target)


def _back_up(target: str) -> None:
    """Copy the file to its backup name, with its owner and mode."""
    before = target + BACKUP_SUFFIX
    with contextlib.suppress(FileNotFoundError):
        os.unlink(before)
    shutil.copy2(target, before)
    status = os.stat(target)
    os.chown(before, status.st_uid, status.st_gid)
