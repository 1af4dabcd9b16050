"""`sacctmgr add account|user|qos`: computes the changes and Slurm's description of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.slurm.format.account_tree import ROOT

from .admin_levels import TITLES, level_change, split_level
from .change_arguments import ChangeOptions
from .change_messages import NOTHING_ADDED, ChangeRefused
from .decision import AccountTables, Change, Decision, check_default, default_changes, put, section
from .editable import EDITABLE
from .setting_values import FLAG_NAMES, GivenSetting, Values, shown, values_for

LAST = "DefQOS"
"""Label that is printed after all others."""
OF_ACCOUNT = ("Description", "Organization")
SHOWN_WIDTH = 14
QOS_WIDTH = 24
UNPADDED = ("MaxJobsPerUser", "MaxJobsPerAccount", "MaxSubmitJobsPerAccount")
"""Labels that Slurm prints without padding."""


def add(entity: str, tables: AccountTables, wanted: ChangeOptions) -> Decision:
    """Return the change that adds the named entities. Raises ChangeRefused."""
    if not wanted.names:
        raise ChangeRefused(f" Need name of {entity} to add.\n")
    return {"account": _accounts, "user": _users, "qos": _qos}[entity](tables, wanted)


def _accounts(tables: AccountTables, wanted: ChangeOptions) -> Decision:
    values = values_for(wanted.settings, {}, qos=tables.qos_names())
    parent = values.get("parent") or ""
    if parent == ROOT and not tables.account(ROOT):
        values.pop("parent")
    elif parent and not tables.account(parent):
        raise ChangeRefused(
            f" Parent account '{parent}' doesn't exist on cluster {CLUSTER}\n"
            "        Contact your admin to add this account.\n No associations created.\n"
        )
    names = _new(wanted.names, {*(name.lower() for name in tables.accounts), ROOT})
    if parent in names:
        raise ChangeRefused(" An account cannot be its own parent.\n No associations created.\n")
    description = [" Adding Account(s)", *(f"  {name}" for name in names), " Settings"]
    description += [f"  Description     = {values.get('description') or 'Account Name'}"]
    description += [
        f"  Organization    = {values.get('organization') or 'Parent/Account Name'}",
        " Associations",
    ]
    description += [f"  A = {name[:10]:<10} C = {CLUSTER:<10}" for name in names]
    if wanted.settings:
        description += [" Settings", *_association_lines({**values, "parent": parent or ROOT}, "account")]
    return Decision(description, [put(values, "accounts", name) for name in names])


def _new(names: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the names that are not known. Raises ChangeRefused if there are none."""
    found = [name for name in names if name not in known]
    if not found:
        raise ChangeRefused(output=NOTHING_ADDED)
    return found


def _users(tables: AccountTables, wanted: ChangeOptions) -> Decision:
    level, wanted = split_level(wanted)
    default = next(iter(wanted.where.get("defaultaccounts", [])), "")
    accounts = wanted.where.get("accounts") or ([default] if default else [])
    if not accounts:
        raise ChangeRefused(" Need name of account to add user to.\n")
    unknown = next((name for name in (*accounts, *filter(None, [default])) if not tables.account(name)), "")
    if unknown:
        raise ChangeRefused(
            f" This account '{unknown}' doesn't exist.\n        Contact your admin to add this account.\n"
            " No associations or wckeys created.\n"
        )
    values = values_for(wanted.settings, {}, qos=tables.qos_names())
    there = set(tables.places(wanted.names))
    fresh = [
        (user, tables.account(name))
        for user in wanted.names
        for name in dict.fromkeys(accounts)
        if (user, tables.account(name)) not in there
    ]
    if not fresh:
        raise ChangeRefused(output=NOTHING_ADDED)
    new = [user for user in wanted.names if user not in {user for user, _ in tables.places(())}]
    description = section(" Adding User(s)", (f"  {user}" for user in new))
    own = [f"  Default Account = {default}"] if default and new else []
    own += [f"  Admin Level     = {TITLES[level]}"] if level and new else []
    description += section(" Settings =", own)
    description += [" Associations ="]
    description += [
        f"  U = {user[:9]:<9} A = {account[:10]:<10} C = {CLUSTER:<10}" for user, account in fresh
    ]
    description += [" Non Default Settings", *_association_lines(values, "user")]
    changes = []
    for user, account in fresh:
        before = {"qos": tables.qos_of(account)}
        association = values_for(wanted.settings, before, qos=tables.qos_names())
        path = ("accounts", account, "users", user)
        check_default(association, before, path)
        changes.append(put(association, *path))
    changes += [level_change(tables, user, level) for user in new if level]
    for user in wanted.names:
        changes += _defaults(tables, user, [account for each, account in fresh if each == user], default)
    return Decision(description, changes)


def _defaults(tables: AccountTables, user: str, fresh: Sequence[str], default: str) -> list[Change]:
    """Return the changes that set the user's default account.

    A user with several accounts needs a default, which is the first existing account unless another one is
    named.
    """
    places = tables.accounts_of(user)
    if len(places) + len(fresh) < 2:
        return []
    first = next((account for account, table in places.items() if table.get("default")), "")
    meant = tables.account(default) or first or next(iter([*places, *fresh]))
    return default_changes({**places, **{account: {} for account in fresh}}, meant, user)


def _qos(tables: AccountTables, wanted: ChangeOptions) -> Decision:
    values = values_for(wanted.settings, {}, qos=tables.qos_names())
    names = _new(wanted.names, {name.lower() for name in tables.qos_names()})
    description = [" Adding QOS(s)", *(f"  {name}" for name in names), " Settings"]
    description += [f"  Description    = {names[0]}", *_qos_lines(wanted.settings, values)]
    return Decision(description, [put(values, "qos", name) for name in names])


def _qos_lines(settings: Sequence[GivenSetting], values: Values) -> list[str]:
    lines = {}
    flags = [name for key, name in FLAG_NAMES.items() if values.get(key)]
    if flags:
        lines["Flags"] = ",".join(flags)
    for field in (each.field for each in settings):
        if field.key and values.get(field.key) is not None:
            lines[field.label] = shown(field, values[field.key])
        elif field.kind == "mode":
            lines[field.label] = "CLUSTER"
    return [
        f"  {label} = {text}" if label in UNPADDED else f"  {label:<{QOS_WIDTH}} = {text}"
        for label, text in sorted(lines.items())
    ]


def _association_lines(values: Values, entity: str) -> list[str]:
    fields = {field.key: field for field in EDITABLE[entity].fields.values() if field.label not in OF_ACCOUNT}
    labels = {fields[key].label: shown(fields[key], value) for key, value in values.items() if key in fields}
    order = sorted(labels, key=lambda label: (label == LAST, label))
    return [f"  {label:<{SHOWN_WIDTH}}= {labels[label]}" for label in order]
