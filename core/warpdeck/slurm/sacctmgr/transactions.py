"""Rows of `sacctmgr show transaction`, from the audit log: the changes of accounts, users and QoS. Pure, except for the request.

Slurm writes a row for each change of a table of its database. Here a row stands for each change of config.toml that has the
same meaning, whether sacctmgr or an edit of the file made it. `Where` names the object, because associations have no numbers.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.slurm.format.units import moment

from .entity_rows import Row

MAX_ENTRIES = 10_000
LEVELS = {"none": 1, "operator": 2, "administrator": 3}
"""Slurm's numbers of the admin levels."""
Action = tuple[str, str, str, Row]
"""The action, the object, the new values, and the fields of the association."""
OF_ACCOUNT = ("description", "organization")


def transaction_rows(client: Any) -> list[Row]:
    """Return the transactions, the oldest first. An ordinary user gets only the user's own ones."""
    entries = client.call(
        "audit",
        own=not client.welcome.get("admin"),
        requests=["amend", "reload"],
        outcomes=["done"],
        limit=MAX_ENTRIES,
    )["entries"]
    return [
        {
            "Time": moment(entry["at"]),
            "start at": str(entry["at"]),
            "end at": str(entry["at"]),
            "Actor": entry["user"],
            "ID": str(entry["number"]),
            "Action": action,
            "Where": where,
            "Info": info,
            **fields,
        }
        for entry in entries
        for line in entry.get("details", {}).get("settings", ())
        for action, where, info, fields in actions_of(line)
    ]


def actions_of(line: str) -> Iterator[Action]:
    """Yield the transactions of sacctmgr that correspond to a changed setting, such as "accounts.lab.shares: 1 -> 3"."""
    key, _, change = line.partition(": ")
    try:
        path = _path(key)
    except tomllib.TOMLDecodeError:
        return  # The line was cut.
    old, arrow, new = change.partition(" -> ")
    verb = {"added": "Add", "removed": "Remove"}.get(change, "Modify" if arrow else "")
    if not verb:
        return
    match path:
        case ["accounts", account, "coordinators"]:
            yield from _coordinators(account, old, new)
        case ["accounts", account, *rest]:
            yield from _association(verb, account, rest, new)
        case ["qos", name, *rest]:
            yield f"{verb} QOS", _where(verb, name), _info(rest, new), {}
        case ["users", name, *rest]:
            level = LEVELS.get(new.strip('"'), 1) if rest else 1
            yield "Modify Users", f"(name='{name}')", f"admin_level={level}", {"User": name}
        case _:
            return


def _path(key: str) -> list[str]:
    found: Any = tomllib.loads(f"{key} = 0")
    path = []
    while isinstance(found, dict):
        [(word, found)] = found.items()
        path.append(word)
    return path


def _association(verb: str, account: str, rest: list[str], new: str) -> Iterator[Action]:
    fields = {"Account": account, "Cluster": CLUSTER}
    match rest:
        case []:
            yield f"{verb} Accounts", _where(verb, account), "", fields
        case [name] if name in OF_ACCOUNT:
            yield "Modify Accounts", f"(name='{account}')", _info(rest, new), fields
        case ["users", user, *more]:
            where = f"acct='{account}', user='{user}'"
            yield f"{verb} Associations", where, _info(more, new), {**fields, "User": user}
        case _:
            yield "Modify Associations", f"acct='{account}'", _info(rest, new), fields


def _coordinators(account: str, old: str, new: str) -> Iterator[Action]:
    try:
        before, after = json.loads(old), json.loads(new)
    except json.JSONDecodeError:
        return
    for user in after:
        if user not in before:
            yield "Add Account Coord", user, account, {"Account": account, "User": user}
    for user in before:
        if user not in after:
            where = f"(user='{user}') && (acct='{account}')"
            yield "Remove Account Coords", where, "", {"Account": account, "User": user}


def _where(verb: str, name: str) -> str:
    return {"Add": name, "Remove": f"name='{name}'"}.get(verb, f"(name='{name}')")


def _info(keys: list[str], new: str) -> str:
    return "" if not keys else f"{'.'.join(keys)}={new}"
