"""`sacctmgr modify account|user|qos`: selects the entities and computes their changes. Pure."""

from __future__ import annotations

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.slurm.format.account_tree import ROOT

from .decision import Change, Decision, Nothing, Tables, check_default, default_changes, put
from .entity_settings import Values, values_for
from .listing import ListOptions

NOTHING = " Nothing modified\n"
NOTHING_TO_SET = " You didn't give me anything to set\n"
ABOUT = ("description", "organization")
"""Settings of an account itself, as opposed to its association."""


def modify(entity: str, tables: Tables, wanted: ListOptions) -> Decision:
    """Return the change of the selected entities. Raises Nothing or Unknown."""
    decided = {"account": _accounts, "user": _users, "qos": _qos}[entity](tables, wanted)
    if not decided.changes:
        raise Nothing(NOTHING, is_error=False)
    return decided


def _accounts(tables: Tables, wanted: ListOptions) -> Decision:
    if not wanted.settings:
        raise Nothing(NOTHING_TO_SET)
    names = {name.lower() for name in wanted.names}
    parents = wanted.where.get("parents", [])
    changes: list[Change] = []
    moved, told = [], []
    for account, table in tables.accounts.items():
        above = str(table.get("parent", "")) or ROOT
        if (names and account.lower() not in names) or (parents and above.lower() not in parents):
            continue
        now = {**table, "qos": tables.qos_of(account)}
        values = values_for(wanted.settings, now, qos=tables.qos_names())
        check_default(values, now, account)
        parent = values.get("parent")
        if parent == ROOT and not tables.account(ROOT):
            values["parent"] = None
        elif parent and not tables.account(parent):
            raise Nothing(
                f" Parent account '{parent}' doesn't exist on cluster {CLUSTER}\n{NOTHING}", is_error=False
            )
        elif parent and parent == account.lower():
            continue
        changes.append(put(values, "accounts", account))
        moved += [f"  C = {CLUSTER:<10} A = {account} of {above}"] if values.keys() - ABOUT else []
        told += [f"  {account}"] if values.keys() & set(ABOUT) else []
    lines = [" Modified account associations...", *moved] if moved else []
    lines += [" Modified accounts...", *told] if told else []
    return Decision("\n".join([*lines, ""]), changes)


def _users(tables: Tables, wanted: ListOptions) -> Decision:
    default = next(iter(wanted.where.get("defaultaccounts", [])), "")
    if not wanted.settings and not default:
        raise Nothing(NOTHING_TO_SET)
    places = tables.places(wanted.names, wanted.where.get("accounts", ()))
    changes: list[Change] = []
    lines: list[str] = []
    if wanted.settings:
        for user, account in places:
            now = {**tables.users_of(account)[user], "qos": tables.qos_of(account, user)}
            values: Values = values_for(wanted.settings, now, qos=tables.qos_names())
            check_default(values, now, account, user)
            changes.append(put(values, "accounts", account, "users", user))
        lines += [" Modified user associations..."] if places else []
        lines += [f"  C = {CLUSTER:<10} A = {account:<20} U = {user:<9}" for user, account in places]
    if default:
        users = list(dict.fromkeys(user for user, _ in places))
        _check_default(tables, users, default)
        for user in users:
            own = {account: tables.users_of(account)[user] for _, account in tables.places([user])}
            changes += default_changes(own, tables.account(default), user)
            # A user's only account is already the default, but Slurm reports it as modified, too.
        lines += [" Modified users...", *(f"  {user}" for user in users)] if users else []
    return Decision("\n".join([*lines, ""]), changes)


def _check_default(tables: Tables, users: list[str], default: str) -> None:
    account = tables.account(default)
    without = [user for user in users if not account or user not in tables.users_of(account)]
    if without:
        lines = "".join(f"  U = {user} C = {CLUSTER}\n" for user in without)
        told = " Can't modify because these users aren't associated with new default account"
        raise Nothing(f"{told} '{default}'...\n{lines}", is_error=False)


def _qos(tables: Tables, wanted: ListOptions) -> Decision:
    if not wanted.settings:
        raise Nothing(NOTHING_TO_SET)
    names = [name for name in tables.qos_names() if not wanted.names or name.lower() in wanted.names]
    changes = [
        put(values_for(wanted.settings, tables.qos.get(name, {}), qos=tables.qos_names()), "qos", name)
        for name in names
    ]
    return Decision("\n".join([" Modified qos...", *(f"  {name}" for name in names), ""]), changes)
