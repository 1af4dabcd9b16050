"""The right to back up and restore a home, and the folders that root may write to."""

from __future__ import annotations

import os
import pwd
import stat

from warpdeck.base.errors import UserError
from warpdeck.base.paths import SLURM, Paths


def check_owner(paths: Paths) -> None:
    """Raise UserError unless this user owns the home, and the home belongs to warpdeck's own scheduler."""
    if paths.is_of_another:
        owner = _name(os.stat(paths.home).st_uid)
        raise UserError(
            f"the home {paths.home} belongs to {owner}; only its owner can back it up, check it or restore it",
            f"ask {owner}" + (f", or use `sudo -u {owner}`" if os.geteuid() == 0 else ""),
            code="refused",
        )
    if os.path.isdir(paths.home) and paths.engine == SLURM:
        raise UserError(
            f"the home {paths.home} belongs to a gateway to Slurm, and Slurm's own database contains the jobs",
            "back up slurmctld's StateSaveLocation and the database of slurmdbd",
        )


def check_folder(folder: str) -> None:
    """Raise UserError if root would write into a folder in which another user could replace files meanwhile.

    Raises OSError if the folder or one of its parents does not exist.
    """
    if os.geteuid() != 0:
        return
    place = os.path.realpath(folder)
    while True:
        found = os.stat(place)
        if found.st_uid != 0 or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
            raise UserError(
                f"users other than root can change {place}, so root does not write a backup below it",
                "choose a folder of root, such as /var/backups/warpdeck",
            )
        if place == "/":
            return
        place = os.path.dirname(place)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
