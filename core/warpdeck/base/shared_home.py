"""A site's controller, which root runs in a home directory that every user can reach and only root can
change.

The home has mode 0711: users can open the socket (0666) by its name and see no other file; all other files
are 0600 and folders 0700. The kernel reports the identity of the process at the socket's other end, so a
connection gives no user the rights of another.
"""

from __future__ import annotations

import os
import stat

from .errors import UserError
from .paths import Paths

SHARED_MODE = 0o711


def open_to_all(paths: Paths) -> None:
    """Create or open the home directory. Raises UserError."""
    if os.geteuid() != 0:
        raise UserError(
            "only root can share a controller: it runs each job as its user",
            "start your own controller with `warpdeck up`",
        )
    _check_parents(os.path.realpath(os.path.dirname(paths.home)))
    try:
        os.makedirs(paths.home, exist_ok=True)
        if os.stat(paths.home).st_uid != 0:
            raise UserError(f"{paths.home} is not owned by root", "choose another with WARPDECK_HOME")
        os.chmod(paths.home, SHARED_MODE)
    except OSError as error:
        raise UserError(
            f"cannot use {paths.home}: {os.strerror(error.errno or 0)}", "choose another with WARPDECK_HOME"
        ) from error


def is_open_to_all(paths: Paths) -> bool:
    """Return whether root has opened the home to all users."""
    found = os.stat(paths.home)
    return found.st_uid == 0 and stat.S_IMODE(found.st_mode) == SHARED_MODE


def open_site_gateway(paths: Paths) -> None:
    """Create or open the home directory of a site gateway to Slurm. It needs no rights, but only root can create the usual
    home. Raises UserError.
    """
    try:
        os.makedirs(paths.home, exist_ok=True)
        if os.stat(paths.home).st_uid == os.geteuid():
            os.chmod(paths.home, SHARED_MODE)
    except OSError as error:
        raise UserError(
            f"cannot use {paths.home}: {os.strerror(error.errno or 0)}",
            f"create it as root: `install -d -m 711 -o ACCOUNT {paths.home}`",
        ) from error


def _check_parents(folder: str) -> None:
    """Raise UserError if users cannot enter a parent folder, or if users other than root could replace the
    home in it.
    """
    while True:
        if os.path.isdir(folder):
            found = os.stat(folder)
            others_write = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
            if not found.st_mode & 0o001:
                raise UserError(
                    f"{folder} is not accessible to other users",
                    "choose another home: WARPDECK_HOME=/srv/warpdeck",
                )
            if found.st_uid != 0 or others_write:
                raise UserError(
                    f"{folder} is writable by users other than root", "choose another home with WARPDECK_HOME"
                )
        if folder == "/":
            return
        folder = os.path.dirname(folder)
