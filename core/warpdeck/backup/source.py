"""The things that can be verified and restored: a backup, a folder of backups, a home, or a database file."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.store.database_copy import Show, copy_database

from .archive import extract
from .generations import generations
from .manifest import CONFIG, DATABASE, HOST_KEYS, Manifest

SQLITE_MAGIC = b"SQLite format 3\0"


class Source(NamedTuple):
    """A backup, home or database file, after its files were copied into a folder."""

    path: str
    """The source itself. For a folder of backups it is the newest of them."""
    manifest: Manifest | None
    """The manifest of a backup, or None for a home or a database file."""


def stage(path: str, folder: str, *, show: Show) -> Source:
    """Copy the files of a source into an empty folder, and check the digests of a backup.

    A home, such as the folder that a restore keeps, gives its database, its configuration and its host keys. Raises
    UserError, OSError or sqlite3.Error.
    """
    path = os.path.abspath(path)
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, DATABASE)):
        path = _newest_backup(path)
    if os.path.isdir(path):
        copy_database(os.path.join(path, DATABASE), os.path.join(folder, DATABASE), show=show)
        for name in (CONFIG, HOST_KEYS):
            if os.path.isfile(os.path.join(path, name)):
                shutil.copyfile(os.path.join(path, name), os.path.join(folder, name))
        return Source(path, None)
    with open(path, "rb") as file:
        is_database = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    if is_database:
        copy_database(path, os.path.join(folder, DATABASE), show=show)
        return Source(path, None)
    manifest = extract(path, folder, show=show)
    if manifest.part(DATABASE) is None:
        raise UserError(f"{path} contains no database", "use another backup")
    return Source(path, manifest)


def _newest_backup(folder: str) -> str:
    """Return the newest backup in a folder. The backups must belong to one site. Raises UserError or OSError."""
    found = generations(folder)
    if not found:
        raise UserError(
            f"{folder} contains no backup of yours", "name a file that `warpdeck backup` has written"
        )
    if len({each.site for each in found}) > 1:
        raise UserError(f"{folder} contains backups of several sites", "name one of the files")
    return os.path.join(folder, found[-1].name)
