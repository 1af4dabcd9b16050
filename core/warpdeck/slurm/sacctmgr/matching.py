"""Selects the rows that sacctmgr's `show` prints by its conditions. Pure.

The rules were measured with Slurm 22.05. Accounts and users have one row for each association. Conditions on
associations select among these rows. Without `withassoc` every account and user is kept, but a user without a
matching association has no default account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from warpdeck_agent.wire.hostnames import HostlistError, expand

from .entities import ENTITIES, PLACES
from .entity_rows import Row
from .show_conditions import ConditionOptions

FIELDS = {
    "Accounts": "Account", "Action": "Action", "Actors": "Actor",
    "AdminLevel": "Admin", "Clusters": "Cluster", "DefaultAccount": "Def Acct", "DefaultQOS": "Def QOS",
    "Descriptions": "Descr", "Events": "Event", "IDs": "ID", "Names": "Name", "Nodes": "NodeName", "Organizations": "Org",
    "Parents": "ParentName", "Partitions": "Partition", "PreemptMode": "PreemptMode", "QOSLevel": "QOS", "Reason": "Reason",
    "States": "State", "Types": "Type", "Users": "User",
}  # fmt: skip
"""Condition -> the field that it applies to. Other conditions match all rows."""
COORDINATED = "coordinates"
"""Field with the accounts of a coordinator, or the coordinators of an account. It is printed with `withcoordinators` only."""
OWN = {
    "user": ("User", "Def Acct", "Admin", COORDINATED),
    "account": ("Account", "Descr", "Org", COORDINATED),
}
"""Fields that belong to the user or the account and not to an association."""
LEVELS = ("none", "operator", "administrator")
NOWHERE = dict.fromkeys(
    (
        "ID", "Share", "GrpJobs", "GrpJobsAccrue", "GrpSubmit", "GrpCPUs", "GrpCPUMins", "GrpMem", "GrpNodes", "MaxJobs",
        "MaxJobsAccrue", "MaxJobsPU", "MaxSubmit", "MaxSubmitPU", "MaxCPUs", "MaxCPUMins", "MaxNodes", "LFT", "RGT", "ParentID",
    ),
    "0",
) | {"GrpWall": "00:00:00", "MaxWall": "00:00:00"}  # fmt: skip
"""Values that Slurm prints if there is no association."""


def chosen(entity: str, rows: Sequence[Row], asked: ConditionOptions) -> list[Row]:
    """Return the rows of an entity to print."""
    key = ENTITIES[entity].key
    fields = {**FIELDS, "Names": key}
    own = {fields[name]: values for name, values in asked.where.items() if name in fields}
    if "WithSubAccounts" in asked.flags and "Account" in own:
        own["below"] = own.pop("Account")
    if "OnlyDefaults" in asked.flags:
        own["is default"] = ["yes"]
    if entity not in OWN:
        return [row for row in rows if _fits(row, own)]
    of_places = {fields[name]: asked.where[name] for name in asked.where if name in PLACES and name in fields}
    own = {field: values for field, values in own.items() if field not in of_places}
    fitting = [row for row in rows if _fits(row, own)]
    owners = _of_owners(entity, key, fitting, of_places, linked="WithAssoc" in asked.flags)
    if "WithCoordinators" in asked.flags:
        return [{**row, "Coord Accounts": row[COORDINATED]} for row in owners]
    return list(owners)


def _of_owners(
    entity: str, key: str, rows: Iterable[Row], of_places: Mapping[str, list[str]], *, linked: bool
) -> Iterator[Row]:
    """Yield one row for each account or user, or, if `linked`, its matching associations."""
    owners: dict[str, list[Row]] = {}
    for row in rows:
        owners.setdefault(row[key], []).append(row)
    for places in owners.values():
        meant = [row for row in places if _fits(row, of_places)]
        about = {field: places[0].get(field, "") for field in OWN[entity]}
        if entity == "user" and not any(row["Account"] == row["Def Acct"] for row in meant):
            about["Def Acct"] = ""
        if linked and meant:
            yield from ({**row, **about} for row in meant)
        else:
            yield {**NOWHERE, **about}


def _fits(row: Row, wanted: Mapping[str, list[str]]) -> bool:
    return all(_has(row, field, [value.lower() for value in values]) for field, values in wanted.items())


def _has(row: Row, field: str, values: list[str]) -> bool:
    has = row.get(field, "").lower()
    if not values:
        return field != "User" or not has
    if field == "User" and has.endswith(")"):
        return any(has in (f"{value}(0)", f"root({value})") for value in values)
    if field == "Admin":
        known = [value for value in values if any(level.startswith(value) for level in LEVELS)]
        return not known or any(has.startswith(value) for value in known)
    if field == "Type":
        return has in values or f"{has}/{row['Name'].lower()}" in values
    if field == "NodeName":
        return has in _nodes(values)
    if field in ("Reason", "Event", "State"):
        return any(value in has for value in values)
    return has in values or not set(values).isdisjoint(has.split(","))


def _nodes(values: Iterable[str]) -> set[str]:
    try:
        return set(expand(",".join(values)))
    except HostlistError:
        return set()
