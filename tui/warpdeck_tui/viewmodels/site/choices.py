"""Partitions, accounts and QoS to choose from in a form, each with what is free in it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpdeck.notation.values.durations import roughly
from warpdeck.protocol.site_rows import PartitionRow, QosRow, ShareRow, UseRow
from warpdeck_tui.viewmodels.cells import plural

from .quota import Quota, account_quota, qos_quota


class Choice(NamedTuple):
    """A value of a field, what is free in it, and the style role of these words."""

    value: str
    words: str = ""
    style: str = ""


class SiteFacts(NamedTuple):
    """The tables of the site that the choices come from."""

    partitions: Sequence[PartitionRow] = ()
    qos: Sequence[QosRow] = ()
    shares: Sequence[ShareRow] = ()
    uses: Sequence[UseRow] = ()


def choices(field: str, facts: SiteFacts, *, user: str) -> list[Choice]:
    """Return the choices of the field `partition`, `account` or `qos` that are open to the user."""
    if field == "partition":
        return [_partition(row) for row in facts.partitions if _is_open(row, user)]
    mine = [row for row in facts.shares if row.user == user]
    if field == "account":
        return list(_accounts(mine, facts, user))
    return list(_qos(mine, facts, user))


def that_begin(found: Sequence[Choice], text: str) -> list[Choice]:
    """Return the choices that begin with the text, or all if it names one of them or none."""
    some = [each for each in found if each.value.startswith(text)]
    named = any(each.value == text for each in found)
    return list(found) if named or not some else some


def free_words(row: PartitionRow) -> str:
    """Return what is free in the partition, such as "12 of 64 GPUs free"."""
    if row.gpus:
        return f"{row.gpus - row.gpus_used} of {row.gpus} GPUs free"
    return f"{row.cpus - row.cpus_used} of {row.cpus} CPUs free"


def _partition(row: PartitionRow) -> Choice:
    if row.state != "UP":
        return Choice(row.name, row.state.lower(), "warn")
    limit = f", up to {roughly(row.max_time_s)}" if row.max_time_s else ""
    default = ", default" if row.default else ""
    is_full = row.gpus_used >= row.gpus if row.gpus else row.cpus_used >= row.cpus
    return Choice(row.name, f"{free_words(row)}{default}{limit}", "muted" if is_full else "")


def _is_open(row: PartitionRow, user: str) -> bool:
    """Return whether the user may be able to use the partition. The groups of a user are not known here."""
    return row.allow_users is None or user in row.allow_users or row.allow_groups is not None


def _accounts(mine: Sequence[ShareRow], facts: SiteFacts, user: str) -> Iterator[Choice]:
    for row in mine:
        words, style = _left(account_quota(row, facts.shares, facts.uses))
        yield Choice(row.account, f"{words}, default" if row.default else words, style)


def _qos(mine: Sequence[ShareRow], facts: SiteFacts, user: str) -> Iterator[Choice]:
    open_to_any = not mine or any(row.qos is None for row in mine)
    allowed = {name for row in mine for name in row.qos or ()}
    defaults = {row.default_qos for row in mine if row.default}
    for each in facts.qos:
        if open_to_any or each.name in allowed:
            words, style = _left(qos_quota(each, facts.uses, user))
            wall_s = each.limits.get("max_wall_s")
            limit = f", up to {roughly(wall_s)}" if isinstance(wall_s, int) else ""
            default = ", default" if each.name in defaults else ""
            yield Choice(each.name, f"{words}{default}{limit}", style)


def _left(found: Quota | None) -> tuple[str, str]:
    """Return what is left of a limit in words, and their style role."""
    if found is None:
        return "no limit of GPUs", ""
    left = max(0, found.most - found.used)
    return f"{left} of {plural(found.most, 'GPU')} left", "" if left else "warn"


def empty_words(field: str, reason: str) -> str:
    """Return the message of an empty list. `reason` says why the scheduler cannot tell, or is ""."""
    names = {"partition": "partitions", "account": "accounts", "qos": "QoS"}
    return reason or f"No {names[field]} to choose from"
