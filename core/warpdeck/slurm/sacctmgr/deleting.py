"""`sacctmgr delete account|user|qos`: computes what is deleted, including everything that depends on it.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.slurm.format.account_tree import ROOT

from .decision import Change, Decision, Nothing, Table, Tables, default_changes, default_line, drop, put
from .listing import NO_CONDITION, ListOptions

NOTHING = " Nothing deleted\n"
IN_USE = " Error with request: Job(s) active, cancel job(s) before remove\n"
DEFAULT_QOS = """ Associations listed below have these as their Default QOS.
{} Please either remove the qos' listed above from list and resubmit,
 or change the default qos to remove the qos.
 Changes Discarded
"""
Active = Iterable[tuple[int, str, str]]
"""(job, account, user) of the pending and running jobs."""


def delete(entity: str, tables: Tables, wanted: ListOptions, *, active: Active = ()) -> Decision:
    """Return the change that deletes the selected entities. Raises Nothing."""
    if not wanted.names and not wanted.where:
        raise Nothing(NO_CONDITION)
    if entity == "qos":
        decided = _qos(tables, wanted)
    elif entity == "account":
        decided = _accounts(tables, wanted, active)
    else:
        decided = _users(tables, wanted, active)
    if not decided.changes:
        raise Nothing(NOTHING, is_error=False)
    return decided


def _accounts(tables: Tables, wanted: ListOptions, active: Active) -> Decision:
    if ROOT in wanted.names:
        raise Nothing(" You are not allowed to remove the root account.\n Use remove cluster instead.\n")
    parents = wanted.where.get("parents", [])
    named = [
        account
        for account, table in tables.accounts.items()
        if (not wanted.names or account.lower() in wanted.names)
        and (not parents or (str(table.get("parent", "")) or ROOT).lower() in parents)
    ]
    gone = _with_all_below(tables, named)
    _check_idle((job, account, user) for job, account, user in active if account in gone)
    told = [" Deleting accounts...", *(f"  {account}" for account in gone), ""]
    changes = [drop("accounts", account) for account in gone]
    users = {user for account in gone for user in tables.users_of(account)}
    for user in sorted(users):
        changes += _next_default(tables, user, gone)
    return Decision("\n".join(told), changes)


def _with_all_below(tables: Tables, named: list[str]) -> list[str]:
    gone = list(named)
    for account in gone:
        gone += [
            each
            for each, table in tables.accounts.items()
            if str(table.get("parent", "")) == account and each not in gone
        ]
    return gone


def _users(tables: Tables, wanted: ListOptions, active: Active) -> Decision:
    accounts = wanted.where.get("accounts", [])
    gone = tables.places(wanted.names, accounts)
    _check_idle((job, account, user) for job, account, user in active if (user, account) in gone)
    users = list(dict.fromkeys(user for user, _ in gone))
    without = [user for user in users if {account for _, account in tables.places([user])} <= _of(gone, user)]
    if accounts:
        told = [" Deleting user associations..."]
        told += [f"  C = {CLUSTER:<10} A = {account:<10} U = {user:<9}" for user, account in gone]
        told += (
            [" Deleting users (No Associations)...", *(f"  {user}" for user in without)] if without else []
        )
    else:
        told = [" Deleting users...", *(f"  {user}" for user in users)]
    changes = [drop("accounts", account, "users", user) for user, account in gone]
    for user in users:
        changes += _next_default(tables, user, _of(gone, user))
    return Decision("\n".join([*told, ""]), changes)


def _of(places: Iterable[tuple[str, str]], user: str) -> set[str]:
    return {account for each, account in places if each == user}


def _next_default(tables: Tables, user: str, gone: Iterable[str]) -> list[Change]:
    """Return the changes that set a new default account for a user whose default is deleted.

    The new default is the first of the user's remaining accounts.
    """
    places = {account: tables.users_of(account)[user] for _, account in tables.places([user])}
    left = {account: table for account, table in places.items() if account not in set(gone)}
    if len(left) < 2 or any(table.get("default") for table in left.values()):
        return []
    return default_changes(left, next(iter(left)), user)


def _check_idle(active: Active) -> None:
    lines = [
        f"  JobID = {job:<10} C = {CLUSTER:<10} A = {account:<10} U = {user:<9}\n"
        for job, account, user in active
    ]
    if lines:
        raise Nothing(IN_USE + "".join(lines))


def _qos(tables: Tables, wanted: ListOptions) -> Decision:
    """Return the deletion of QoS, which also removes them from all lists.

    Raises Nothing if one of them is somebody's default.
    """
    gone = [name for name in tables.qos if name.lower() in wanted.names]
    changes = [drop("qos", name) for name in gone]
    for name, table in tables.qos.items():
        left = _left(table, "preempts", gone)
        changes += [put({"preempts": left}, "qos", name)] if left is not KEPT and name not in gone else []
    places: list[tuple[tuple[str, ...], Table]] = [
        (("accounts", account), table) for account, table in tables.accounts.items()
    ]
    for account in tables.accounts:
        places += [
            (("accounts", account, "users", user), table) for user, table in tables.users_of(account).items()
        ]
    lines = [
        default_line(table["default_qos"], *path[1::2])
        for path, table in places
        if table.get("default_qos") in gone
    ]
    if lines:
        raise Nothing(DEFAULT_QOS.format("".join(lines)))
    for path, table in places:
        if (left := _left(table, "qos", gone)) is not KEPT:
            changes.append(put({"qos": left}, *path))
    return Decision("\n".join([" Deleting QOS(s)...", *(f"  {name}" for name in gone), ""]), changes)


KEPT: list[str] = []
"""Marks a list that does not change."""


def _left(table: Table, key: str, gone: list[str]) -> list[str] | None:
    """Return the list without the deleted names, None if it becomes empty, or KEPT if it does not change."""
    now = list(table.get(key) or ())
    left = [each for each in now if each not in gone]
    return KEPT if left == now else left or None
