"""Which QoS a place in the account tree may use, and which one its jobs have without a word. Pure.

A user's own come before the account's, the account's before those of the account above it, as in Slurm. Where none says so: any.
"""

from __future__ import annotations

from collections.abc import Iterator

from .tables import Account, Config, User


def allowed_qos(config: Config, account: str, user: str = "") -> frozenset[str] | None:
    """None: any."""
    return next(
        (frozenset(each.qos) for each in _upwards(config, account, user) if each.qos is not None), None
    )


def default_qos(config: Config, account: str, user: str = "") -> str:
    """Nothing for none."""
    return next((each.default_qos for each in _upwards(config, account, user) if each.default_qos), "")


def default_qos_by_place(config: Config) -> dict[tuple[str, str], str]:
    """(account, user), or (account, "") -> the QoS of jobs that name none, where there is one."""
    places = [(account, user) for account, table in config.accounts.items() for user in ("", *table.users)]
    found = {place: default_qos(config, *place) for place in places}
    return {place: qos for place, qos in found.items() if qos}


def _upwards(config: Config, account: str, user: str) -> Iterator[Account | User]:
    """The user's place, the account, and those above."""
    seen: set[str] = set()
    if account in config.accounts and user in config.accounts[account].users:
        yield config.accounts[account].users[user]
    while account in config.accounts and account not in seen:
        seen.add(account)
        yield config.accounts[account]
        account = config.accounts[account].parent
