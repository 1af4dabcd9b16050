"""The controller's limit of open files.

Each client, link and stream needs one file; the usual soft limit is 1,024. Programs that the controller
starts for users get the original limit, because some programs close or select() all possible descriptors.
"""

from __future__ import annotations

import resource

_started_with = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_limit() -> None:
    """Set the soft limit of this process to its hard limit."""
    hard = _started_with[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def restore_limit() -> None:
    """Set the limit with which this process was started. A child calls it between fork and exec."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _started_with)
