"""`sacctmgr delete account|user|qos`: computes what is deleted, including everything that depends on it.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.slurm.format.account_tree import ROOT

from . import coordinators
from .change_arguments import NO_CONDITION, ChangeOptions
from .change_messages import NOTHING_DELETED, ChangeRefused
from .decision import (
    AccountTables,
    Change,
    Decision,
    Path,
    Table,
    default_changes,
    default_line,
    drop,
    put,
    section,
)

IN_USE = " Error with request: Job(s) active, cancel job(s) before remove\n"
ROOT_STAYS = " You are not allowed to remove the root account.\n Use remove cluster instead.\n"
DEFAULT_QOS = """ Associations listed below have these as their Default QOS.
{} Please either remove the qos' listed above from list and resubmit,
 or change the default qos to remove the qos.
 Changes Discarded
"""
Active = Iterable[tuple[int, str, str]]
"""(job, account, user) of the pending and running jobs."""


def delete(entity: str, tables: AccountTables, wanted: ChangeOptions, *, active: Active = ()) -> Decision:
    """Return the change that deletes the selected entities. Raises ChangeRefused."""
    if not wanted.names and not wanted.where:
        raise ChangeRefused(NO_CONDITION)
    if entity == "account" and ROOT in wanted.names:
        raise ChangeRefused(ROOT_STAYS)
    gone = tables.selected(entity, wanted.names, wanted.where)
    if entity == "account":
        gone = _with_all_below(tables, gone)
    _check_idle(active, gone)
    if entity == "qos":
        gone = [path for path in gone if path[-1] in tables.qos]
        more = _without_qos(tables, [path[-1] for path in gone])
    else:
        more = [*_next_defaults(tables, gone), *_without_rights(tables, gone)]
    if not gone:
        raise ChangeRefused(output=NOTHING_DELETED)
    if entity == "user":
        description = _describe_users(tables, gone, has_accounts=bool(wanted.where.get("accounts")))
    else:
        title = {"account": " Deleting accounts...", "qos": " Deleting QOS(s)..."}[entity]
        description = [title, *(f"  {path[-1]}" for path in gone)]
    return Decision(description, [*(drop(*path) for path in gone), *more])


def _with_all_below(tables: AccountTables, named: list[Path]) -> list[Path]:
    gone = list(named)
    for _, account in gone:
        gone += [
            ("accounts", name)
            for name, table in tables.accounts.items()
            if table.get("parent") == account and ("accounts", name) not in gone
        ]
    return gone


def _check_idle(active: Active, gone: Collection[Path]) -> None:
    """Raise ChangeRefused if a job is active in an association that would be deleted."""
    lines = [
        f"  JobID = {job:<10} C = {CLUSTER:<10} A = {account:<10} U = {user:<9}\n"
        for job, account, user in active
        if ("accounts", account) in gone or ("accounts", account, "users", user) in gone
    ]
    if lines:
        raise ChangeRefused(IN_USE + "".join(lines))


def _describe_users(tables: AccountTables, gone: list[Path], *, has_accounts: bool) -> list[str]:
    users = list(dict.fromkeys(path[-1] for path in gone))
    if not has_accounts:
        return [" Deleting users...", *(f"  {user}" for user in users)]
    without = [user for user in users if not _left(tables, user, gone)]
    places = (f"  C = {CLUSTER:<10} A = {account:<10} U = {user:<9}" for _, account, _, user in gone)
    return [
        *section(" Deleting user associations...", places),
        *section(" Deleting users (No Associations)...", (f"  {user}" for user in without)),
    ]


def _left(tables: AccountTables, user: str, gone: Collection[Path]) -> dict[str, Table]:
    """Return the accounts that a user keeps, each with the user's table there."""
    return {
        account: table
        for account, table in tables.accounts_of(user).items()
        if ("accounts", account) not in gone and ("accounts", account, "users", user) not in gone
    }


def _next_defaults(tables: AccountTables, gone: list[Path]) -> list[Change]:
    """Return the changes that set a new default account for each user who loses the default account.

    The new default is the first of the user's remaining accounts.
    """
    of_accounts = sorted({user for path in gone if len(path) == 2 for user in tables.users_of(path[1])})
    users = dict.fromkeys([*of_accounts, *(path[-1] for path in gone if len(path) == 4)])
    changes: list[Change] = []
    for user in users:
        left = _left(tables, user, gone)
        if len(left) > 1 and not any(table.get("default") for table in left.values()):
            changes += default_changes(left, next(iter(left)), user)
    return changes


def _without_rights(tables: AccountTables, gone: list[Path]) -> list[Change]:
    """Return the changes that take the rights of deleted users away: their coordinated accounts and admin levels."""
    users = {path[-1] for path in gone if len(path) == 4}
    users |= {user for path in gone if len(path) == 2 for user in tables.users_of(path[-1])}
    without = sorted(user for user in users if not _left(tables, user, gone))
    kept = tables._replace(
        accounts={name: table for name, table in tables.accounts.items() if ("accounts", name) not in gone}
    )
    levels = [drop("users", user) for user in without if user in tables.levels]
    return [*coordinators.without(kept, without), *levels]


def _without_qos(tables: AccountTables, gone: list[str]) -> list[Change]:
    """Return the changes that remove deleted QoS from all lists.

    Raises ChangeRefused if one of them is somebody's default.
    """
    places: list[tuple[Path, Table]] = []
    for account, table in tables.accounts.items():
        places.append((("accounts", account), table))
        places += [
            (("accounts", account, "users", user), own) for user, own in tables.users_of(account).items()
        ]
    lines = [
        default_line(table["default_qos"], path) for path, table in places if table.get("default_qos") in gone
    ]
    if lines:
        raise ChangeRefused(DEFAULT_QOS.format("".join(lines)))
    kept: list[tuple[Path, Table]] = [
        (("qos", name), table) for name, table in tables.qos.items() if name not in gone
    ]
    listed = [(path, "preempts", table) for path, table in kept]
    listed += [(path, "qos", table) for path, table in places]
    changes = []
    for path, key, table in listed:
        now = list(table.get(key) or ())
        left = [name for name in now if name not in gone]
        if left != now:
            changes.append(put({key: left or None}, *path))
    return changes
