"""`sacctmgr add|delete coordinator`: computes the changes and Slurm's description of them. Pure.

The messages were measured with Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Iterable

from .change_arguments import ChangeOptions
from .change_messages import ChangeRefused
from .decision import AccountTables, Change, Decision, put, section

NO_WORDS = " You need to specify conditions to to add the coordinator.\n"
NO_USERS = " You need to specify a user list here.\n"
NO_ACCOUNTS = " You need to specify an account list here.\n"
NEITHER = " You need to specify a user list or account list here.\n"
NOTHING_REMOVED = " Nothing removed\n"


def add(tables: AccountTables, wanted: ChangeOptions) -> Decision:
    """Return the change that makes users coordinators of accounts. Raises ChangeRefused."""
    named = wanted.where.get("accounts", [])
    if not named and not wanted.names:
        raise ChangeRefused(NO_WORDS)
    if not wanted.names:
        raise ChangeRefused(NO_USERS)
    if not named:
        raise ChangeRefused(NO_ACCOUNTS)
    accounts, users = _accounts(tables, named), _users(tables, wanted.names)
    description = [" Adding Coordinator User(s)", *_listed(users), " To Account(s) and all sub-accounts"]
    changes = [
        _put(account, [*dict.fromkeys([*tables.coordinators(account), *users])]) for account in accounts
    ]
    return Decision([*description, *_listed(accounts)], changes)


def delete(tables: AccountTables, wanted: ChangeOptions) -> Decision:
    """Return the change that takes coordinators away from accounts. Raises ChangeRefused."""
    named = wanted.where.get("accounts", [])
    if not named and not wanted.names:
        raise ChangeRefused(NEITHER)
    accounts, users = _accounts(tables, named), _users(tables, wanted.names)
    if users:
        description = [" Removing Coordinators with user name", *_listed(users)]
        description += section(" From Account(s)", _listed(accounts)) or [" From all accounts"]
    else:
        description = [" Removing all users from Accounts", *_listed(accounts)]
    removed: list[str] = []
    changes: list[Change] = []
    for account in accounts or sorted(tables.accounts):
        before = tables.coordinators(account)
        gone = [user for user in before if user in users or not users]
        removed += (f"  U = {user:<9} A = {account:<10}" for user in gone)
        if gone:
            changes.append(_put(account, [user for user in before if user not in gone]))
    if not removed:
        raise ChangeRefused(output="".join(f"{line}\n" for line in description) + NOTHING_REMOVED)
    return Decision([*description, " Removed Coordinators (sub accounts not listed)...", *removed], changes)


def without(tables: AccountTables, users: Iterable[str]) -> list[Change]:
    """Return the changes that remove deleted users from the coordinators of all accounts."""
    gone = set(users)
    return [
        _put(account, [user for user in tables.coordinators(account) if user not in gone])
        for account in tables.accounts
        if not gone.isdisjoint(tables.coordinators(account))
    ]


def _put(account: str, coordinators: list[str]) -> Change:
    return put({"coordinators": coordinators or None}, "accounts", account)


def _listed(names: Iterable[str]) -> list[str]:
    return [f"  {name}" for name in names]


def _accounts(tables: AccountTables, named: Iterable[str]) -> list[str]:
    """Return the accounts as written in the file. Raises ChangeRefused if one does not exist."""
    for name in named:
        if not tables.account(name):
            raise ChangeRefused(f" You specified a non-existent account '{name}'.\n")
    return [tables.account(name) for name in dict.fromkeys(named)]


def _users(tables: AccountTables, named: Iterable[str]) -> list[str]:
    """Return the users as written in the file. Raises ChangeRefused for a user without an association."""
    for name in named:
        if not tables.user(name):
            raise ChangeRefused(f" You specified a non-existent user '{name}'.\n")
    return [tables.user(name) for name in dict.fromkeys(named)]
