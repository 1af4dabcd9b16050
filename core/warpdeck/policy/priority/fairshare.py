"""Fair Tree fairshare over the account tree, and the decay of usage.

Source: Slurm's Fair Tree (slurm.schedmd.com/fair_tree.html). The level fairshare of an association is S / U:
its part of its siblings' shares over its part of its siblings' usage. The tree is walked from the root, at
each level in descending order of S / U. Users are ranked in the order in which they are reached, and
fairshare = rank / number of users; the first user has 1.0.

Siblings with equal S / U share a rank. If an account ties with siblings, its best users share the rank of
these siblings: of sibling users, and of the best users of sibling accounts.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from warpdeck.policy.input.site import AccountView, UserView

ROOT = "root"


class FairshareRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of sshare: an account (`user` is "") or a user in an account."""

    account: str
    user: str
    parent: str
    shares: int
    norm_shares: float
    """The share of this association divided by the shares of it and its siblings."""
    usage: float
    norm_usage: float
    """The usage of this association divided by the usage of it and its siblings."""
    level_fs: float
    """norm_shares / norm_usage; infinite without usage."""
    fairshare: float = 0.0
    """For a user: the fairshare factor of the priority, in (0, 1]."""
    depth: int = 0


def decayed(usage: float, *, elapsed_s: float, half_life_s: float) -> float:
    """Return the usage after this time. With half_life_s 0, usage never decays."""
    if half_life_s <= 0:
        return usage
    return usage * math.exp2(-elapsed_s / half_life_s)


def decayed_seconds(from_unix: float, until_unix: float, *, now: float, half_life_s: float) -> float:
    """Return the seconds between two times, each weighted by its decay until `now` (the integral of the
    decay).
    """
    length_s = max(0.0, until_unix - from_unix)
    if half_life_s <= 0:
        return length_s
    mean_life_s = half_life_s / math.log(2)
    # expm1 keeps the result exact for short jobs and long half-lives.
    whole_s = -mean_life_s * math.expm1(-length_s / mean_life_s)
    return decayed(whole_s, elapsed_s=now - until_unix, half_life_s=half_life_s)


def fair_tree(accounts: Sequence[AccountView], users: Sequence[UserView]) -> list[FairshareRow]:
    """Return all accounts and users in the order of the tree. Users have their fairshare set."""
    walk = _TreeRanking(accounts, users)
    walk.visit([("", "")], 0)
    return walk.finish()


def fairshare_by_user(
    accounts: Sequence[AccountView], users: Sequence[UserView]
) -> dict[tuple[str, str], float]:
    """Return the fairshare of each (account, user), in (0, 1]."""
    return {(line.account, line.user): line.fairshare for line in fair_tree(accounts, users) if line.user}


_Child = tuple[str, str, int, float]
"""A child of an account: (account, user, shares, usage)."""


class _TreeRanking:
    def __init__(self, accounts: Sequence[AccountView], users: Sequence[UserView]) -> None:
        known = {account.name for account in accounts}
        self._children: dict[str, list[_Child]] = {}
        for account in accounts:
            parent = account.parent if account.parent in known and account.parent != account.name else ""
            self._children.setdefault(parent, []).append((account.name, "", account.shares, account.usage))
        for user in users:
            parent = user.account if user.account in known else ""
            self._children.setdefault(parent, []).append((user.account, user.user, user.shares, user.usage))
        self._lines: list[FairshareRow] = []
        self._ranked: list[tuple[int, int]] = []
        """Ranked users: (index of the user's line, number of the tie)."""
        self._ties = 0

    def visit(self, parents: list[tuple[str, str]], depth: int, *, tied: bool = False) -> None:
        """Rank the children of accounts that tie with each other, together. `tied` means that these accounts
        also tie with the user ranked last.
        """
        level: list[FairshareRow] = []
        for parent, _ in parents:
            level += _fairshare_rows(parent, self._children.get(parent, ()), depth)
        level.sort(key=lambda line: (-line.level_fs, line.account, line.user))
        for number, tie in enumerate(_ties(level)):
            inherited = tied and number == 0
            has_users = any(line.user for line in tie)
            self._ties += has_users and not inherited
            for line in tie:
                self._lines.append(line)
                if line.user:
                    self._ranked.append((len(self._lines) - 1, self._ties))
            below = [(line.account, "") for line in tie if not line.user]
            if below:
                self.visit(below, depth + 1, tied=inherited or has_users)

    def finish(self) -> list[FairshareRow]:
        """Return the lines with users ranked. Users that tie all get the best rank of their tie."""
        count = len(self._ranked)
        best: dict[int, int] = {}
        for position, (_, tie) in enumerate(self._ranked):
            best.setdefault(tie, count - position)
        for index, tie in self._ranked:
            self._lines[index] = msgspec.structs.replace(self._lines[index], fairshare=best[tie] / count)
        return self._lines


def _fairshare_rows(parent: str, children: Iterable[_Child], depth: int) -> list[FairshareRow]:
    children = list(children)
    shares = sum(max(0, child[2]) for child in children) or 1
    usage = math.fsum(child[3] for child in children)  # fsum gives the same result in any order.
    found = []
    for account, user, own_shares, own_usage in children:
        norm_shares = max(0, own_shares) / shares
        norm_usage = own_usage / usage if usage else 0.0
        level = norm_shares / norm_usage if norm_usage else (math.inf if norm_shares else 0.0)
        found.append(
            FairshareRow(
                account=account,
                user=user,
                parent=parent,
                shares=own_shares,
                norm_shares=norm_shares,
                usage=own_usage,
                norm_usage=norm_usage,
                level_fs=level,
                depth=depth,
            )
        )
    return found


def _ties(level: list[FairshareRow]) -> Iterable[list[FairshareRow]]:
    tie: list[FairshareRow] = []
    for line in level:
        if tie and line.level_fs != tie[-1].level_fs:
            yield tie
            tie = []
        tie.append(line)
    if tie:
        yield tie
