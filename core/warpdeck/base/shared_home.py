"""A site's controller: root's, in a home that every user of the machine can reach and only root can change.

The home is mode 0711: users get to the socket (0666) by its name and see nothing else; every other file in it is 0600 or
0700. Who asks is what the kernel says of the socket's other end, so being able to connect gives nobody another's rights.
"""

from __future__ import annotations

import os
import stat

from .errors import UserError
from .paths import Paths

SHARED_MODE = 0o711


def open_to_all(paths: Paths) -> None:
    """Makes the home, or opens one that is there. Raises UserError."""
    if os.geteuid() != 0:
        raise UserError(
            "only root can share a controller: it runs each job as its user", "start your own: warpdeck up"
        )
    _check_parents(os.path.realpath(os.path.dirname(paths.home)))
    try:
        os.makedirs(paths.home, exist_ok=True)
        if os.stat(paths.home).st_uid != 0:
            raise UserError(f"{paths.home} is not root's", "choose another with WARPDECK_HOME")
        os.chmod(paths.home, SHARED_MODE)
    except OSError as error:
        raise UserError(
            f"cannot use {paths.home}: {os.strerror(error.errno or 0)}", "choose another with WARPDECK_HOME"
        ) from error


def _check_parents(folder: str) -> None:
    """A folder above that is closed keeps users out; one that others can change lets them put up a home of their own."""
    while True:
        if os.path.isdir(folder):
            found = os.stat(folder)
            others_write = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
            if not found.st_mode & 0o001:
                raise UserError(
                    f"{folder} is closed to other users", "choose another home: WARPDECK_HOME=/srv/warpdeck"
                )
            if found.st_uid != 0 or others_write:
                raise UserError(
                    f"{folder} can be changed by others than root", "choose another home with WARPDECK_HOME"
                )
        if folder == "/":
            return
        folder = os.path.dirname(folder)
