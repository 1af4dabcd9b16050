"""Make a backup of a home while its controller runs or is stopped."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator

import msgspec

from warpdeck._version import __version__
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.store.database_copy import Show, copy_database

from .archive import written_archive
from .counters import counters_of
from .generations import generations
from .manifest import (
    CONFIG,
    DATABASE,
    FORMAT,
    HOST_KEYS,
    KEYS,
    PART,
    TREES,
    Manifest,
    generation_name,
    site_tag,
)
from .owner import check_folder, check_owner
from .pending import finish_restore
from .staging import private_folder, sync_folder


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made, and the older ones that were deleted after it."""

    file: str
    size_bytes: int
    """Size of the file."""
    manifest: Manifest
    """The last part of the backup, which describes all others."""
    deleted: tuple[str, ...] = ()
    """Files that `--keep` has deleted."""


def make_backup(
    paths: Paths, target: str, *, keep: int = 0, with_keys: bool = False, with_trees: bool = False, show: Show
) -> Backup:
    """Back up the home into the file `target`, or into a new file of the folder `target`.

    In a folder, only the last `keep` backups of this site are kept; 0 keeps all. Raises UserError.
    """
    check_owner(paths)
    finish_restore(paths)
    target = os.path.abspath(target)
    is_folder = os.path.isdir(target)
    if not is_folder and os.path.lexists(target):
        raise UserError(f"{target} exists", "name a new file, or a folder, which gets a new file each time")
    folder = target if is_folder else os.path.dirname(target)
    try:
        check_folder(folder)
        with private_folder(folder) as staging:
            archive = os.path.join(staging, "archive")
            manifest = _write(paths, staging, archive, _extras(paths, keys=with_keys, trees=with_trees), show)
            site = manifest.counters.controller_id
            file = os.path.join(folder, generation_name(manifest.at_unix, site)) if is_folder else target
            size_bytes = os.path.getsize(archive)
            os.rename(archive, file)
            sync_folder(folder)
        deleted = _delete_old(folder, keep=keep, site=site_tag(site)) if is_folder and keep else ()
    except (OSError, sqlite3.Error) as error:
        raise UserError(
            f"cannot back up {paths.home} to {target}: {reason_of(error)}",
            "free space there, or choose a folder on another disk",
        ) from error
    return Backup(file=file, size_bytes=size_bytes, manifest=manifest, deleted=deleted)


def reason_of(error: OSError | sqlite3.Error) -> str:
    """Return the reason without path and number."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _write(
    paths: Paths, staging: str, archive: str, extras: Iterator[tuple[str, str]], show: Show
) -> Manifest:
    copy = os.path.join(staging, DATABASE)
    copy_database(paths.database, copy, show=show)
    at_unix = time.time()
    with written_archive(archive, show=show) as writer:
        writer.add(DATABASE, copy)
        for name, path in extras:
            writer.add(name, path)
        manifest = Manifest(
            format=FORMAT,
            warpdeck=__version__,
            at_unix=at_unix,
            counters=counters_of(copy),
            parts=tuple(writer.parts),
        )
        writer.finish(manifest)
    return manifest


def _extras(paths: Paths, *, keys: bool, trees: bool) -> Iterator[tuple[str, str]]:
    """Yield the name in the archive and the path of all files besides the database."""
    yield CONFIG, paths.config
    yield HOST_KEYS, paths.known_hosts
    for wanted, top, place in ((keys, KEYS, paths.ssh), (trees, TREES, paths.trees)):
        for folder, _, names in os.walk(place) if wanted else ():
            for file in sorted(names):
                path = os.path.join(folder, file)
                name = os.path.join(top, os.path.relpath(path, place))
                if PART.fullmatch(name) and not os.path.islink(path):
                    yield name, path


def _delete_old(folder: str, *, keep: int, site: str) -> tuple[str, ...]:
    """Delete the oldest backups of the site, and return the files. Raises OSError."""
    names = [each.name for each in generations(folder) if each.site == site]
    gone = tuple(os.path.join(folder, name) for name in names[:-keep])
    for file in gone:
        os.unlink(file)
    return gone
