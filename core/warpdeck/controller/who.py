"""Who asks, as the kernel says, or as an agent does of a job's own processes."""

from __future__ import annotations

import msgspec


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `admin`: root, or the controller's own user."""

    user: str
    uid: int
    admin: bool = False
