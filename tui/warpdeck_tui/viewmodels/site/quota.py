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
    return _tightest(found)


def account_quota(row: ShareRow, shares: Iterable[ShareRow], uses: Iterable[UseRow]) -> Quota | None:
    """Return the limit of GPUs that leaves the fewest for the user of `row` in its account, or None.

    The limits of the account itself and of the accounts above it are for all of its users together.
    """
    used = {(each.qos, each.account, each.user): _gpus(each.tres) or 0 for each in uses}
    found = list(_of_accounts(row.user, used, [row]))
    accounts = {each.account: each for each in shares if not each.user}
    name = row.account
    for _ in range(len(accounts)):  # a limit, in case the tree has a cycle
        account = accounts.get(name)
        if account is None:
            break
        most = _limit(account.limits, "grp_tres")
        if most is not None:
            found.append(Quota(used.get(("", name, ""), 0), most))
        name = account.parent
    return _tightest(found)


def qos_quota(level: QosRow, uses: Iterable[UseRow], user: str) -> Quota | None:
    """Return the limit of GPUs that leaves the fewest for the user in this QoS, or None."""
    used = {each.user: _gpus(each.tres) or 0 for each in uses if each.qos == level.name and not each.account}
    limits = (("max_tres_per_user", user), ("grp_tres", ""))
    found = ((_limit(level.limits, name), used.get(who, 0)) for name, who in limits)
    return _tightest(Quota(count, most) for most, count in found if most is not None)


def _tightest(found: Iterable[Quota]) -> Quota | None:
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
