"""Checks whether the agent's folder is usable, so that the agent can start launches.

The folder must still be the original one and be writable. An agent without its folder still answers but
fails every job. So a failed launch calls this check to find out whether the node or the job is at fault. The
node's health repeats the check regularly.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Optional, Sequence, Tuple

from warpdeck_agent.linux.refusals import NO_SPACE_ERRORS, LaunchError, full_disk
from warpdeck_agent.wire.messages import Check

NAME = "agent"
"""The name of the check."""
_PROBE = "probe"
_NODE_ERRORS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of an agent that cannot start processes or open files. No request of a job leads to them."""


class OwnFolder:
    """The folder and its subfolders that launches need. All methods block as long as the disk does."""

    def __init__(self, path: str, below: Sequence[str]) -> None:
        self._path = path
        self._below = below
        self._original = self._identity()

    def fault(self) -> str:
        """Return a sentence that describes the fault; "" if there is none.

        A full disk has a check of its own.
        """
        try:
            if self._identity() != self._original:
                return f"the agent's folder {self._path} was replaced while the agent ran. {self._remedy()}"
            for name in self._below:
                os.stat(f"{self._path}/{name}")
            self._write()
        except (FileNotFoundError, NotADirectoryError) as error:
            return f"the agent's folder {error.filename} is gone. {self._remedy()}"
        except OSError as error:
            if error.errno not in NO_SPACE_ERRORS:
                return f"the agent cannot write to its folder {self._path}: {os.strerror(error.errno or 0)}"
        return ""

    def check(self) -> Check:
        """Return the result as a check of the node's health."""
        fault = self.fault()
        return Check(NAME, "fail", fault) if fault else Check(NAME, "ok", f"{self._path} can be written")

    def refusal(self, error: BaseException) -> Optional[LaunchError]:
        """Return the refusal of a launch or step that failed with this error.

        Returns None if the agent and its disk are well.
        """
        if isinstance(error, OSError) and error.errno in NO_SPACE_ERRORS:
            return full_disk(self._path)
        if isinstance(error, OSError) and error.errno in _NODE_ERRORS:
            message = f"the agent cannot start processes: {os.strerror(error.errno)}"
            return LaunchError(message, check=NAME)
        fault = self.fault()
        return LaunchError(fault, check=NAME) if fault else None

    def _identity(self) -> Tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino

    def _write(self) -> None:
        path = f"{self._path}/{_PROBE}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, b"x")
        finally:
            os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):  # another check may run at the same time
            os.unlink(path)

    def _remedy(self) -> str:
        return f"Stop the agent (process {os.getpid()}); the controller then starts it again"
