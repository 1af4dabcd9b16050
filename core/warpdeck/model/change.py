"""Requested changes of an existing job (`scontrol update`). Fields that are UNSET are not changed.

The field names and the limits of the types are those of `Request`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .request import (
    Bytes,
    Count,
    CountOrNone,
    Dependencies,
    GpuRequest,
    Limit,
    MailTypes,
    NodeCount,
    Seconds,
    Signed,
    Text,
    UnixTime,
    Word,
)

MAX_NAMED = 100_000
"""Maximum number of nodes in one list."""
NodeNames = Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_NAMED)]


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a job to change. None removes the value of an optional field."""

    time_limit_s: Limit | UnsetType | None = UNSET
    time_limit_more_s: Signed = 0
    """Seconds to add to the present time limit. A negative number shortens the limit."""
    end_at_unix: UnixTime | UnsetType = UNSET
    """For a running job: the Unix time at which its time limit is to expire."""
    time_min_s: Limit | UnsetType | None = UNSET
    deadline_unix: UnixTime | UnsetType | None = UNSET
    begin_at_unix: UnixTime | UnsetType | None = UNSET
    partition: Word | UnsetType = UNSET
    account: Word | UnsetType = UNSET
    qos: Word | UnsetType = UNSET
    reservation: Word | UnsetType = UNSET
    priority: Signed | UnsetType | None = UNSET
    nice: Signed | UnsetType = UNSET
    name: Word | UnsetType = UNSET
    comment: Text | UnsetType = UNSET
    admin_comment: Text | UnsetType = UNSET
    requeue: bool | UnsetType = UNSET
    mail_types: MailTypes | UnsetType = UNSET
    mail_user: Word | UnsetType = UNSET
    dependencies: Dependencies | UnsetType | None = UNSET
    licenses: Annotated[tuple[tuple[Word, Count], ...], msgspec.Meta(max_length=64)] | UnsetType = UNSET
    throttle: CountOrNone | UnsetType = UNSET
    """Maximum number of array tasks that run at once; 0 means no limit."""
    output: Text | UnsetType = UNSET
    chdir: Text | UnsetType = UNSET
    nodes_min: NodeCount | UnsetType = UNSET
    nodes_max: NodeCount | UnsetType = UNSET
    tasks: Count | UnsetType = UNSET
    tasks_per_node: Count | UnsetType = UNSET
    cpus_per_task: Count | UnsetType = UNSET
    cpus_per_node_min: Count | UnsetType = UNSET
    mem_per_node_bytes: Bytes | UnsetType = UNSET
    """Replaces a request for memory per CPU or per GPU. Likewise, `mem_per_cpu_bytes` replaces the other
    two.
    """
    mem_per_cpu_bytes: Bytes | UnsetType = UNSET
    contiguous: bool | UnsetType = UNSET
    gpus: GpuRequest | UnsetType = UNSET
    nodelist: NodeNames | UnsetType = UNSET
    exclude: NodeNames | UnsetType = UNSET
    constraint: Word | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    share_with: Literal["", "anybody"] | UnsetType = UNSET
    max_switches: Count | UnsetType | None = UNSET
    switches_wait_s: Seconds | UnsetType | None = UNSET

    def changed_fields(self) -> frozenset[str]:
        """Return the names of the fields to change."""
        return frozenset(
            name
            for name in self.__struct_fields__
            if getattr(self, name) is not UNSET and (name != "time_limit_more_s" or self.time_limit_more_s)
        )
