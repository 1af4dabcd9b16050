"""`sacctmgr modify account|user|qos`: selects the entities and computes their changes. Pure."""

from __future__ import annotations

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.slurm.format.account_tree import ROOT

from .admin_levels import level_change, split_level
from .change_arguments import ChangeOptions
from .change_messages import NOTHING_MODIFIED, NOTHING_TO_SET, ChangeRefused
from .decision import (
    AccountTables,
    Change,
    Decision,
    Path,
    check_default,
    default_changes,
    put,
    section,
)
from .setting_values import Values, values_for

ABOUT = frozenset({"description", "organization"})
"""Settings of an account itself, as opposed to its association."""


def modify(entity: str, tables: AccountTables, wanted: ChangeOptions) -> Decision:
    """Return the change of the selected entities. Raises ChangeRefused."""
    default = next(iter(wanted.where.get("defaultaccounts", [])), "")
    level, wanted = split_level(wanted) if entity == "user" else (None, wanted)
    if not wanted.settings and not default and not level:
        raise ChangeRefused(NOTHING_TO_SET)
    paths = tables.selected(entity, wanted.names, wanted.where)
    changed: dict[Path, Values] = {}
    for path in paths if wanted.settings else ():
        now = tables.table(path)
        values = values_for(wanted.settings, now, qos=tables.qos_names())
        check_default(values, now, path)
        if entity != "account" or _can_move(tables, path, values):
            changed[path] = values
    changes = [put(values, *path) for path, values in changed.items()]
    description = _DESCRIBE[entity](tables, changed)
    if level:
        users = list(dict.fromkeys(path[-1] for path in paths))
        changes += [level_change(tables, user, level) for user in users]
        description = [*section(" Modified users...", (f"  {user}" for user in users)), *description]
    if default:
        users = list(dict.fromkeys(path[-1] for path in paths))
        changes += _new_defaults(tables, users, default)
        # A user's only account is already the default, but Slurm reports it as modified, too.
        description += section(" Modified users...", (f"  {user}" for user in users))
    if not changes:
        raise ChangeRefused(output=NOTHING_MODIFIED)
    return Decision(description, changes)


def _can_move(tables: AccountTables, path: Path, values: Values) -> bool:
    """Return whether an account can be below its new parent, if it gets one.

    The root account is no parent in config.toml, unless it is defined there. Raises ChangeRefused if the parent does not
    exist.
    """
    parent = values.get("parent")
    if parent == ROOT and not tables.account(ROOT):
        values["parent"] = None
    elif parent and not tables.account(parent):
        raise ChangeRefused(
            output=f" Parent account '{parent}' doesn't exist on cluster {CLUSTER}\n{NOTHING_MODIFIED}"
        )
    elif parent and parent == path[-1].lower():
        return False
    return True


def _describe_accounts(tables: AccountTables, changed: dict[Path, Values]) -> list[str]:
    moved = [
        f"  C = {CLUSTER:<10} A = {name} of {tables.parent(name)}"
        for (_, name), values in changed.items()
        if values.keys() - ABOUT
    ]
    described = [f"  {name}" for (_, name), values in changed.items() if values.keys() & ABOUT]
    return [
        *section(" Modified account associations...", moved),
        *section(" Modified accounts...", described),
    ]


def _describe_users(_: AccountTables, changed: dict[Path, Values]) -> list[str]:
    lines = (f"  C = {CLUSTER:<10} A = {account:<20} U = {user:<9}" for _, account, _, user in changed)
    return section(" Modified user associations...", lines)


def _describe_qos(_: AccountTables, changed: dict[Path, Values]) -> list[str]:
    return section(" Modified qos...", (f"  {name}" for _, name in changed))


_DESCRIBE = {"account": _describe_accounts, "user": _describe_users, "qos": _describe_qos}


def _new_defaults(tables: AccountTables, users: list[str], default: str) -> list[Change]:
    """Return the changes that set the users' default account. Raises ChangeRefused if it is not one of theirs."""
    account = tables.account(default)
    without = [user for user in users if not account or user not in tables.users_of(account)]
    if without:
        lines = "".join(f"  U = {user} C = {CLUSTER}\n" for user in without)
        description = " Can't modify because these users aren't associated with new default account"
        raise ChangeRefused(output=f"{description} '{default}'...\n{lines}")
    return [change for user in users for change in default_changes(tables.accounts_of(user), account, user)]
