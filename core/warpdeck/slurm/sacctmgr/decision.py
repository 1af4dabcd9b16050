"""A planned change of accounts, users or QoS: its description and the resulting tables of config.toml.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.slurm.format.account_tree import ROOT

from .change_messages import ChangeRefused

Table = Mapping[str, Any]
Path = tuple[str, ...]
"""Keys that lead to a table of config.toml: accounts NAME, accounts NAME users USER, or qos NAME."""
Change = dict[str, Any]
"""`model.Amendment` in its wire format."""


class AccountTables(NamedTuple):
    """The tables of config.toml that are in force."""

    accounts: Mapping[str, Table]
    qos: Mapping[str, Table]
    levels: Mapping[str, Table] = {}
    """The tables of [users] that set an admin level."""

    def account(self, name: str) -> str:
        """Return the account's name as written in the file, found in any case, or "" if there is none."""
        return next((each for each in self.accounts if each.lower() == name.lower()), "")

    def users_of(self, account: str) -> Mapping[str, Table]:
        return dict(self.accounts[account].get("users", {}))

    def places(self, users: Iterable[str], accounts: Iterable[str] = ()) -> list[tuple[str, str]]:
        """Return (user, account) of each association. Without users or accounts, all of them match."""
        wanted, among = {user.lower() for user in users}, {name.lower() for name in accounts}
        return [
            (user, account)
            for account in self.accounts
            for user in self.users_of(account)
            if (not wanted or user.lower() in wanted) and (not among or account.lower() in among)
        ]

    def coordinators(self, account: str) -> list[str]:
        """Return the users that the table of the account names as its coordinators."""
        return list(self.accounts[account].get("coordinators", ()))

    def user(self, name: str) -> str:
        """Return the name of a user with an association as written in the file, found in any case, or ""."""
        return next((user for user, _ in self.places([name])), "")

    def accounts_of(self, user: str) -> dict[str, Table]:
        """Return the accounts of a user, each with the user's table there."""
        return {account: self.users_of(account)[name] for name, account in self.places([user])}

    def parent(self, account: str) -> str:
        return str(self.accounts[account].get("parent", "")) or ROOT

    def selected(self, entity: str, names: Sequence[str], where: Mapping[str, Sequence[str]]) -> list[Path]:
        """Return the paths of the entities with these names and conditions. Without either, all match."""
        if entity == "user":
            places = self.places(names, where.get("accounts", ()))
            return [("accounts", account, "users", user) for user, account in places]
        if entity == "qos":
            return [("qos", name) for name in self.qos_names() if not names or name.lower() in names]
        parents = where.get("parents", ())
        return [
            ("accounts", account)
            for account in self.accounts
            if (not names or account.lower() in names)
            and (not parents or self.parent(account).lower() in parents)
        ]

    def table(self, path: Path) -> Table:
        """Return the table at a path, with the QoS that an association may use; {} if there is none."""
        match path:
            case ("accounts", account):
                return {**self.accounts[account], "qos": self.qos_of(account)}
            case ("accounts", account, "users", user):
                return {**self.users_of(account)[user], "qos": self.qos_of(account, user)}
            case _:
                return self.qos.get(path[-1], {})

    def qos_of(self, account: str, user: str = "") -> list[str]:
        """Return the QoS that an association may use.

        They are its own, else those of the nearest account above it that lists some, else all.
        """
        place = self.users_of(account).get(user, {}) if account in self.accounts else {}
        seen: set[str] = set()
        while place.get("qos") is None and account in self.accounts and account not in seen:
            seen.add(account)
            place = self.accounts[account]
            account = str(place.get("parent", ""))
        return list(place["qos"]) if place.get("qos") is not None else self.qos_names()

    def qos_names(self) -> list[str]:
        """Return the names of all QoS, with the default one first."""
        return list(dict.fromkeys([NORMAL_QOS, *self.qos]))


class Decision(NamedTuple):
    """A change and its description, which is printed before the user is asked for confirmation.

    It is an error if `changes` is empty.
    """

    description: Sequence[str]
    """The lines of the description."""
    changes: list[Change]


def section(title: str, lines: Iterable[str]) -> list[str]:
    """Return the lines below their title; [] if there are none."""
    found = list(lines)
    return [title, *found] if found else []


def put(values: Mapping[str, Any], *path: str) -> Change:
    """Return the change that sets values in a table."""
    return {"path": list(path), "values": dict(values)}


def drop(*path: str) -> Change:
    """Return the change that removes a table."""
    return {"path": list(path), "values": None}


def default_line(qos: str, path: Path) -> str:
    """Return an association and its default QoS as one line of an error message."""
    account, *user = path[1::2]
    whose = f"{account:<20} U = {user[0]:<9}" if user else account
    return f"  DefQOS = {qos:<10} C = {CLUSTER:<10} A = {whose}\n"


def check_default(values: Table, before: Table, path: Path) -> None:
    """Raise ChangeRefused if an association would get a default QoS that it may not use."""
    allowed = values.get("qos") or before.get("qos", ())
    default = values.get("default_qos", before.get("default_qos")) or ""
    if default and default not in allowed:
        raise ChangeRefused(
            " These associations don't have access to their default qos.\n"
            " Please give them access before they the default can be set to this.\n"
            + default_line(default, path)
        )


def default_changes(places: Mapping[str, Table], wanted: str, user: str) -> list[Change]:
    """Return the changes that make `wanted` the user's default account.

    `places`: account -> the user's table there.
    """
    return [
        put({"default": True if account == wanted else None}, "accounts", account, "users", user)
        for account, table in places.items()
        if bool(table.get("default")) != (account == wanted)
    ]
