"""Comments and exit codes that users and admins write into a job's accounting record.

They correspond to Slurm's `sacctmgr modify job` and can be written for jobs of any age and in any state. They
affect only the accounting record (sacct). The queue (squeue, scontrol) keeps showing the values that were
submitted or updated.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from .request import Text

WaitStatus = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**32)]


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """Annotations of one accounting record."""

    comment: str | None = None
    """Replaces the job's own comment in the record."""
    admin_comment: str = ""
    system_comment: str = ""
    derived_exit: int | None = None
    """Exit status as wait(2) encodes it. It replaces the status derived from the job's steps."""
    derived_at_unix: float = 0.0
    """Unix time at which `derived_exit` was set. At the end of a job, Slurm derives the exit status again, so
    an older value is ignored.
    """


class AnnotationsChange(msgspec.Struct, frozen=True, kw_only=True):
    """Requested changes of an accounting record. Fields that are UNSET are not changed."""

    comment: Text | UnsetType = UNSET
    admin_comment: Text | UnsetType = UNSET
    system_comment: Text | UnsetType = UNSET
    derived_exit: WaitStatus | UnsetType = UNSET

    def changed_fields(self) -> dict[str, str | int]:
        """Return the names and values of the fields to change."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in values if value is not UNSET}
