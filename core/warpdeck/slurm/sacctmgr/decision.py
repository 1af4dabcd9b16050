"""A planned change of accounts, users or QoS: its description and the resulting tables of config.toml.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.base.cluster import NORMAL_QOS

Table = Mapping[str, Any]
Change = dict[str, Any]
"""`model.Amendment` in its wire format."""


class Tables(NamedTuple):
    """The tables of config.toml that are in force."""

    accounts: Mapping[str, Table]
    qos: Mapping[str, Table]

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

    told: str
    changes: list[Change]


class Nothing(Exception):
    """Nothing is to be changed.

    The text is printed on standard error if `is_error`, else on standard output.
    """

    def __init__(self, text: str, *, is_error: bool = True) -> None:
        super().__init__(text)
        self.is_error = is_error


def put(values: Mapping[str, Any], *path: str) -> Change:
    """Return the change that sets values in a table."""
    return {"path": list(path), "values": dict(values)}


def default_line(qos: str, account: str, user: str = "") -> str:
    """Return an association and its default QoS as one line of an error message."""
    whose = f"{account:<20} U = {user:<9}" if user else account
    return f"  DefQOS = {qos:<10} C = {CLUSTER:<10} A = {whose}\n"


def check_default(values: Mapping[str, Any], before: Mapping[str, Any], account: str, user: str = "") -> None:
    """Raise Nothing if an association would get a default QoS that it may not use."""
    allowed = values.get("qos") or before["qos"]
    default = values.get("default_qos", before.get("default_qos")) or ""
    if default and default not in allowed:
        raise Nothing(
            " These associations don't have access to their default qos.\n"
            " Please give them access before they the default can be set to this.\n"
            + default_line(default, account, user)
        )


def drop(*path: str) -> Change:
    """Return the change that removes a table."""
    return {"path": list(path), "values": None}


def place_line(user: str, account: str) -> str:
    """Return a user's association with an account as `add` prints it."""
    return f"  U = {user[:9]:<9} A = {account[:10]:<10} C = {CLUSTER:<10}"


def default_changes(places: Mapping[str, Table], wanted: str, user: str) -> list[Change]:
    """Return the changes that make `wanted` the user's default account.

    `places`: account -> the user's table there.
    """
    found = []
    for account, table in places.items():
        if bool(table.get("default")) != (account == wanted):
            value = True if account == wanted else None
            found.append(put({"default": value}, "accounts", account, "users", user))
    return found
