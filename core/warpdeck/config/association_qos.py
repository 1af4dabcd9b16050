"""The QoS that an account or a user in it may use, and the default QoS of their jobs. The functions are pure.

As in Slurm, a user's own setting overrides the account's, and the account's overrides its parent's. If none
of them has a list, any QoS is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator

from .tables import Account, Config, User


def allowed_qos(config: Config, account: str, user: str = "") -> frozenset[str] | None:
    """Return the QoS that a user or account may use, or None for any."""
    return next(
        (frozenset(each.qos) for each in _association_chain(config, account, user) if each.qos is not None),
        None,
    )


def default_qos(config: Config, account: str, user: str = "") -> str:
    """Return the default QoS, or "" if there is none."""
    return next(
        (each.default_qos for each in _association_chain(config, account, user) if each.default_qos), ""
    )


def default_qos_by_association(config: Config) -> dict[tuple[str, str], str]:
    """Return the default QoS of each association that has one, by (account, user) or (account, "")."""
    associations = [
        (account, user) for account, table in config.accounts.items() for user in ("", *table.users)
    ]
    found = {association: default_qos(config, *association) for association in associations}
    return {association: qos for association, qos in found.items() if qos}


def _association_chain(config: Config, account: str, user: str) -> Iterator[Account | User]:
    """Yield the table of the user in the account, then the account's and its ancestors' tables."""
    seen: set[str] = set()
    if account in config.accounts and user in config.accounts[account].users:
        yield config.accounts[account].users[user]
    while account in config.accounts and account not in seen:
        seen.add(account)
        yield config.accounts[account]
        account = config.accounts[account].parent
