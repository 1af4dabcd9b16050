"""What is written into a job's record besides what it did: Slurm's `sacctmgr modify job`, of jobs of any age and state.

What is told of a job in the queue (squeue, scontrol) stays as it was submitted or updated; these are the record's (sacct).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from .request import Text

WaitStatus = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**32)]


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says."""

    comment: str | None = None
    """In place of the job's own comment."""
    admin_comment: str = ""
    system_comment: str = ""
    derived_exit: int | None = None
    """A number as wait(2) gives it, in place of what the steps ended with."""
    derived_at_unix: float = 0.0
    """When it was said. The end of a job says it anew."""


class Annotating(msgspec.Struct, frozen=True, kw_only=True):
    """What a record is to say from now on. UNSET is "leave it as it is"."""

    comment: Text | UnsetType = UNSET
    admin_comment: Text | UnsetType = UNSET
    system_comment: Text | UnsetType = UNSET
    derived_exit: WaitStatus | UnsetType = UNSET

    def asked(self) -> dict[str, str | int]:
        """The names and values of what is to be other."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in values if value is not UNSET}
