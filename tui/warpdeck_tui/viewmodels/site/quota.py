"""The user's limit of GPUs, and the GPUs in use that count against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from warpdeck.protocol.site_rows import QosRow, ShareRow, UseRow

GPU_NAMES = ("gpu", "gres/gpu")
"""Names of GPUs among the resources that are limited: ours and Slurm's."""
Limits = Mapping[str, Mapping[str, int] | int]


class Quota(NamedTuple):
    """The user's GPUs in use, and the limit of GPUs that is nearest to being reached."""

    used: int
    most: int


def quota(
    user: str, *, uses: Iterable[UseRow], qos: Iterable[QosRow], shares: Iterable[ShareRow]
) -> Quota | None:
    """Return the limit of GPUs of the user that leaves the fewest GPUs, or None if there is no limit.

    The limits of a QoS count if it is the default of one of the user's accounts, or if the user has jobs in it.
    """
    used = {(row.qos, row.account, row.user): _gpus(row.tres) or 0 for row in uses}
    mine = [row for row in shares if row.user == user]
    found = [*_of_qos(user, qos, used, mine), *_of_accounts(user, used, mine)]
    return min(found, key=lambda each: each.most - each.used, default=None)


def _of_qos(
    user: str, levels: Iterable[QosRow], used: Mapping[tuple[str, str, str], int], mine: list[ShareRow]
) -> Iterator[Quota]:
    defaults = {row.default_qos or "normal" for row in mine} or {"normal"}
    for each in levels:
        most = _limit(each.limits, "max_tres_per_user")
        key = (each.name, "", user)
        if most is not None and (each.name in defaults or key in used):
            yield Quota(used.get(key, 0), most)


def _of_accounts(
    user: str, used: Mapping[tuple[str, str, str], int], mine: list[ShareRow]
) -> Iterator[Quota]:
    for row in mine:
        most = _limit(row.holds or row.limits, "grp_tres", "max_tres_per_user")
        if most is not None:
            yield Quota(used.get(("", row.account, user), 0), most)


def _limit(limits: Limits, *names: str) -> int | None:
    found = [_gpus(counts) for name in names if isinstance(counts := limits.get(name), Mapping)]
    return min((count for count in found if count is not None), default=None)


def _gpus(counts: Mapping[str, int]) -> int | None:
    return next((counts[name] for name in GPU_NAMES if name in counts), None)
