"""The rights that config.toml gives users, and the changes of config.toml that each of them may make. Pure.

`RIGHTS` follows Slurm's database (measured with slurmdbd 22.05):

- An operator changes accounts, their users, limits and coordinators. An operator changes no QoS and no admin level.
- A coordinator of an account adds, changes and removes its users and coordinators, and the accounts below it. QoS, the
  descriptions, and the limits of the coordinated account itself belong to operators.
- An administrator also changes admin levels, QoS, partitions, facts about nodes, and reservations.
- All other tables, such as the programs that nodes run as root, belong to root and the controller's user.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model.admin_level import AdminLevel
from warpdeck.model.config_edit import Amendment
from warpdeck.ports.caller import NOT_ADMIN, Principal, is_administrator, is_operator

from .entries import write
from .tables import Account, Config

OF_ADMINISTRATORS = frozenset({"accounts", "qos", "users", "partitions", "nodes", "reservations"})
"""Tables that administrators change."""
NOT_OF_COORDINATORS = frozenset({"qos", "default_qos", "quota", "coordinators"})
"""Keys of associations that coordinators do not change. Coordinators have a rule of their own."""
NOT_OF_SUBACCOUNTS = NOT_OF_COORDINATORS | {"description", "organization"}
"""Keys of existing accounts that coordinators of a parent do not change."""


class SiteRights(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one user."""

    level: AdminLevel = AdminLevel.NONE
    coordinates: frozenset[str] = frozenset()


def rights_by_user(config: Config) -> dict[str, SiteRights]:
    """Return the rights of each user with more rights than an ordinary user."""
    coordinated: dict[str, set[str]] = {}
    for name in config.accounts:
        for above in _up(name, config.accounts):
            for user in config.accounts[above].coordinators:
                coordinated.setdefault(user, set()).add(name)
    levels = {user: AdminLevel(each.admin_level) for user, each in config.users.items()}
    return {
        user: SiteRights(
            level=levels.get(user, AdminLevel.NONE), coordinates=frozenset(coordinated.get(user, ()))
        )
        for user in levels.keys() | coordinated.keys()
    }


def _up(name: str, accounts: Mapping[str, Account]) -> list[str]:
    """Return the account and the accounts above it."""
    found: list[str] = []
    while name in accounts and name not in found:
        found.append(name)
        name = accounts[name].parent
    return found


def check_amendments(who: Principal, changes: Sequence[Amendment], config: Config) -> None:
    """Raise UserError unless the caller may make all of the changes."""
    if who.admin:
        return
    coordinated = set(who.coordinates)
    gone = {change.path for change in changes if change.values is None}
    for change in changes:
        if not (_may(who, change, config, coordinated) or _is_of_deleted_user(who, change, config, gone)):
            raise UserError(
                f"{who.user} has no right to change {'.'.join(change.path)}",
                "ask an administrator",
                code=NOT_ADMIN,
            )


def _may(who: Principal, change: Amendment, config: Config, coordinated: set[str]) -> bool:
    """Return whether the caller may make one change. An account that it creates is coordinated from now on."""
    table = change.path[0]
    if is_administrator(who):
        return table in OF_ADMINISTRATORS
    if is_operator(who):
        return table == "accounts"
    values = change.values
    match change.path:
        case ("accounts", account, "users", _):
            return account in coordinated and not (values or {}).keys() & NOT_OF_COORDINATORS
        case ("accounts", account) if values is not None and account not in config.accounts:
            parent = values.get("parent")
            is_own = parent in coordinated and not values.keys() & NOT_OF_COORDINATORS
            coordinated.update({account} if is_own else ())
            return is_own
        case ("accounts", account) if values is not None:
            if values.keys() == {"coordinators"}:
                return account in coordinated
            parents = {config.accounts[account].parent, values.get("parent", config.accounts[account].parent)}
            return parents <= coordinated and not values.keys() & NOT_OF_SUBACCOUNTS
        case _:
            return False


def _is_of_deleted_user(
    who: Principal, change: Amendment, config: Config, gone: Collection[tuple[str, ...]]
) -> bool:
    """Return whether an operator takes the admin level of a user who is deleted from all accounts in the same request."""
    if (
        not is_operator(who)
        or change.values is not None
        or len(change.path) != 2
        or change.path[0] != "users"
    ):
        return False
    user = change.path[1]
    return all(
        ("accounts", name) in gone or ("accounts", name, "users", user) in gone
        for name, account in config.accounts.items()
        if user in account.users
    )


def text_for(who: Principal, config: Config) -> str:
    """Return the part of the configuration that the caller may change, as TOML. Raises UserError.

    Coordinators and operators need all accounts and QoS for that. The other tables may contain secrets, such as the
    address of a webhook.
    """
    if who.admin:
        return write(config)
    if is_administrator(who):
        return write(Config(**{name: getattr(config, name) for name in sorted(OF_ADMINISTRATORS)}))
    if is_operator(who) or who.coordinates:
        return write(Config(accounts=config.accounts, qos=config.qos, users=config.users))
    raise UserError(
        "only root and the controller's user, and those who change accounts, may read the configuration",
        "ask an administrator",
        code=NOT_ADMIN,
    )
