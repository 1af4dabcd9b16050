"""The controller's limit of open files.

Each client, link and stream needs one; the usual soft limit is 1,024.

Programs that it starts for users get the original limit, because some close or select() all descriptors that
they may have.
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
