"""What a change of accounts, users or QoS comes to: what is told of it, and which tables of config.toml say what then. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.base.cluster import NORMAL_QOS

Table = Mapping[str, Any]
Change = dict[str, Any]
"""model.Amendment, as it travels."""


class Tables(NamedTuple):
    """config.toml's, as they are in force."""

    accounts: Mapping[str, Table]
    qos: Mapping[str, Table]

    def account(self, name: str) -> str:
        """The account's name as the file has it, whatever its letters; "" if there is none."""
        return next((each for each in self.accounts if each.lower() == name.lower()), "")

    def users_of(self, account: str) -> Mapping[str, Table]:
        return dict(self.accounts[account].get("users", {}))

    def places(self, users: Iterable[str], accounts: Iterable[str] = ()) -> list[tuple[str, str]]:
        """(user, account) of these users, or all, in these accounts, or all."""
        wanted, among = {user.lower() for user in users}, {name.lower() for name in accounts}
        return [
            (user, account)
            for account in self.accounts
            for user in self.users_of(account)
            if (not wanted or user.lower() in wanted) and (not among or account.lower() in among)
        ]

    def qos_of(self, account: str, user: str = "") -> list[str]:
        """What a place may use, its own or of those above; all that there are where none says so."""
        place = self.users_of(account).get(user, {}) if account in self.accounts else {}
        seen: set[str] = set()
        while place.get("qos") is None and account in self.accounts and account not in seen:
            seen.add(account)
            place = self.accounts[account]
            account = str(place.get("parent", ""))
        return list(place["qos"]) if place.get("qos") is not None else self.qos_names()

    def qos_names(self) -> list[str]:
        """Every quality of service there is, the usual one first."""
        return list(dict.fromkeys([NORMAL_QOS, *self.qos]))


class Decision(NamedTuple):
    """`told` is printed before it is asked whether that is meant; without `changes` it is an error."""

    told: str
    changes: list[Change]


class Nothing(Exception):
    """Nothing is to be done: what is said, and whether on standard output."""

    def __init__(self, text: str, *, is_error: bool = True) -> None:
        super().__init__(text)
        self.is_error = is_error


def put(values: Mapping[str, Any], *path: str) -> Change:
    """The table says this."""
    return {"path": list(path), "values": dict(values)}


def default_line(qos: str, account: str, user: str = "") -> str:
    """A place and its default QoS, as they are told of where that cannot be."""
    whose = f"{account:<20} U = {user:<9}" if user else account
    return f"  DefQOS = {qos:<10} C = {CLUSTER:<10} A = {whose}\n"


def check_default(values: Mapping[str, Any], before: Mapping[str, Any], account: str, user: str = "") -> None:
    """Raises Nothing where a place would have a default QoS that it may not use."""
    allowed = values.get("qos") or before["qos"]
    default = values.get("default_qos", before.get("default_qos")) or ""
    if default and default not in allowed:
        raise Nothing(
            " These associations don't have access to their default qos.\n"
            " Please give them access before they the default can be set to this.\n"
            + default_line(default, account, user)
        )


def drop(*path: str) -> Change:
    """The table goes."""
    return {"path": list(path), "values": None}


def place_line(user: str, account: str) -> str:
    """A user's place in an account, as `add` shows it."""
    return f"  U = {user[:9]:<9} A = {account[:10]:<10} C = {CLUSTER:<10}"


def default_changes(places: Mapping[str, Table], wanted: str, user: str) -> list[Change]:
    """That jobs of the user that name no account run under this one. `places`: account -> the user's table there."""
    found = []
    for account, table in places.items():
        if bool(table.get("default")) != (account == wanted):
            value = True if account == wanted else None
            found.append(put({"default": value}, "accounts", account, "users", user))
    return found
