"""What sacctmgr can show: of each entity its fields with their widths, and its rows as the controller has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from warpdeck.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.slurm.units import clock, tres_text

from .fieldnames import PART_WIDTH, PARTS, part_values

Row = dict[str, str]
NO_ENTITY = (
    "No valid entity in list command\n"
    'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"\n'
)
LIMITS = {
    "grp_jobs": "GrpJobs",
    "grp_submit": "GrpSubmit",
    "grp_tres": "GrpTRES",
    "grp_tres_mins": "GrpTRESMins",
    "grp_tres_run_mins": "GrpTRESRunMins",
    "grp_wall_s": "GrpWall",
    "max_tres_per_job": "MaxTRES",
    "max_tres_per_node": "MaxTRESPerNode",
    "max_tres_mins_per_job": "MaxTRESMins",
    "max_wall_s": "MaxWall",
}
"""Limits of an account or user -> sacctmgr's field."""
OF_ASSOCIATION = {"max_jobs_per_user": "MaxJobs", "max_submit_per_user": "MaxSubmit"}
OF_QOS = {
    "max_tres_per_user": "MaxTRESPU",
    "max_jobs_per_user": "MaxJobsPU",
    "max_submit_per_user": "MaxSubmitPU",
    "max_tres_per_account": "MaxTRESPA",
    "max_jobs_per_account": "MaxJobsPA",
    "max_submit_per_account": "MaxSubmitPA",
    "min_tres_per_job": "MinTRES",
}
TRES = (
    ("cpu", "", 1),
    ("mem", "", 2),
    ("energy", "", 3),
    ("node", "", 4),
    ("billing", "", 5),
    ("gres", "gpu", 1001),
)


class Entity(NamedTuple):
    """`key` is the field that a plain name means; `plain` is printed instead of a table."""

    least: int
    widths: Mapping[str, int]
    default: str
    rows: Callable[[Any], list[Row]]
    key: str = ""
    titles: Mapping[str, str] = {}
    plain: str | None = None


def find(word: str, *, with_associations: bool = False) -> Entity | None:
    """The entity that a word, perhaps shortened or in the plural, means."""
    lowered = word.partition("=")[0].lower()
    for name, entity in ENTITIES.items():
        if len(lowered) >= entity.least and (name.startswith(lowered) or lowered == name + "s"):
            return WITH_ASSOCIATIONS.get(name, entity) if with_associations else entity
    return None


def all_widths(entity: Entity) -> Mapping[str, int]:
    """Its fields, with those that nothing prints unasked."""
    return (
        {**entity.widths, **dict.fromkeys(PARTS, PART_WIDTH)} if "GrpTRES" in entity.widths else entity.widths
    )


def _limits(limits: Mapping[str, Any], names: Mapping[str, str]) -> Row:
    found = {}
    for field, name in {**LIMITS, **names}.items():
        value = limits.get(field, limits.get(field.removesuffix("_s")))
        if isinstance(value, dict):
            found[name] = tres_text(value)
        elif value is not None:
            found[name] = clock(value) if field.endswith("_s") else str(value)
    return found | part_values(limits)


def _associations(client: Any) -> list[Row]:
    rows = [_association(row) for row in client.call("shares")["shares"]]
    if any(row["Account"] == "root" and not row["User"] for row in rows):
        return rows
    return [{"Cluster": CLUSTER, "Account": "root", "Share": "1", "QOS": "normal"}, *rows]


def _association(row: Mapping[str, Any]) -> Row:
    return {
        "Cluster": CLUSTER,
        "Account": row["account"],
        "User": row["user"],
        "ParentName": "" if row["user"] else row["parent"] or "root",
        "Share": str(row["shares"]),
        "QOS": "normal",
        "DefaultQOS": row["default_qos"],
        **_limits(row["limits"], OF_ASSOCIATION),
    }


def _users(client: Any) -> list[Row]:
    accounts: dict[str, list[Mapping[str, Any]]] = {}
    for row in client.call("shares")["shares"]:
        if row["user"]:
            accounts.setdefault(row["user"], []).append(row)
    return [_user(name, rows) for name, rows in sorted(accounts.items())]


def _user(name: str, rows: list[Mapping[str, Any]]) -> Row:
    default = next((row["account"] for row in rows if row["default"]), rows[0]["account"])
    admin = "Administrator" if name == "root" else "None"
    return {"User": name, "DefaultAccount": default, "AdminLevel": admin, "Cluster": CLUSTER}


def _users_with_associations(client: Any) -> list[Row]:
    users = {row["User"]: row for row in _users(client)}
    return [
        {**row, **users[row["User"]], "Account": row["Account"]}
        for row in _associations(client)
        if row.get("User")
    ]


def _accounts(client: Any) -> list[Row]:
    names = [row["account"] for row in client.call("shares")["shares"] if not row["user"]]
    rows = [{"Account": name, "Description": name, "Organization": name} for name in sorted(names)]
    if "root" in names:
        return rows
    return [*rows, {"Account": "root", "Description": "default root account", "Organization": "root"}]


def _qos(client: Any) -> list[Row]:
    found = [
        {
            "Name": row["name"],
            "Priority": str(row["priority"]),
            "GraceTime": clock(row["grace_s"]),
            "Preempt": ",".join(row["preempts"]),
            "PreemptMode": row["preempt_mode"] or "cluster",
            "UsageFactor": f"{row['usage_factor']:.6f}",
            **_limits(row["limits"], OF_QOS),
        }
        for row in client.call("qos")["qos"]
    ]
    normal = {
        "Name": "normal",
        "Priority": "0",
        "GraceTime": "00:00:00",
        "PreemptMode": "cluster",
        "UsageFactor": "1.000000",
    }
    return found if any(row["Name"] == "normal" for row in found) else [normal, *found]


def _clusters(client: Any) -> list[Row]:
    host = client.call("status")["host"]
    return [
        {
            "Cluster": CLUSTER,
            "ControlHost": host,
            "ControlPort": "0",
            "RPC": "9728",
            "Share": "1",
            "QOS": "normal",
        }
    ]


def _tres(client: Any) -> list[Row]:
    return [{"Type": kind, "Name": name, "ID": str(number)} for kind, name, number in TRES]


def _none(client: Any) -> list[Row]:
    return []


def _config(client: Any) -> list[Row]:
    values = client.call("settings")["settings"]
    return [{"Name": name, "Value": value or "(null)"} for name, value in sorted(values.items())]


def _reservations(client: Any) -> list[Row]:
    from warpdeck.slurm.units import moment

    return [
        {
            "Cluster": CLUSTER,
            "Name": row["name"],
            "TimeStart": moment(row["start"]),
            "TimeEnd": moment(row["end"]),
            "UnusedWall": "0.000000",
        }
        for row in client.call("reservations")["reservations"]
    ]


_ASSOCIATION = {
    **{
        "Cluster": 10,
        "Account": 10,
        "User": 10,
        "Partition": 10,
        "Share": 9,
        "Priority": 10,
        "GrpJobs": 7,
        "GrpTRES": 13,
    },
    **{
        "GrpSubmit": 9,
        "GrpWall": 11,
        "GrpTRESMins": 13,
        "MaxJobs": 7,
        "MaxTRES": 13,
        "MaxTRESPerNode": 14,
        "MaxSubmit": 9,
    },
    **{
        "MaxWall": 11,
        "MaxTRESMins": 13,
        "QOS": 20,
        "DefaultQOS": 9,
        "GrpTRESRunMins": 13,
        "ParentName": 10,
        "ID": 6,
    },
}
_QOS = {
    **{
        "Name": 10,
        "Priority": 10,
        "GraceTime": 10,
        "Preempt": 10,
        "PreemptExemptTime": 19,
        "PreemptMode": 11,
        "Flags": 40,
    },
    **{
        "UsageThres": 10,
        "UsageFactor": 11,
        "GrpTRES": 13,
        "GrpTRESMins": 13,
        "GrpTRESRunMins": 13,
        "GrpJobs": 7,
    },
    **{
        "GrpSubmit": 9,
        "GrpWall": 11,
        "MaxTRES": 13,
        "MaxTRESPerNode": 14,
        "MaxTRESMins": 13,
        "MaxWall": 11,
        "MaxTRESPU": 13,
    },
    **{"MaxJobsPU": 9, "MaxSubmitPU": 11, "MaxTRESPA": 13, "MaxJobsPA": 9, "MaxSubmitPA": 11, "MinTRES": 13},
}
_USER = {"User": 10, "DefaultAccount": 10, "AdminLevel": 9, "Account": 10, "Cluster": 10, "DefaultWCKey": 10}
_ACCOUNT = {"Account": 10, "Description": 20, "Organization": 20, "Cluster": 10, "User": 10}
_CLUSTER = {
    **{
        "Cluster": 10,
        "ControlHost": 15,
        "ControlPort": 12,
        "RPC": 5,
        "Share": 9,
        "GrpJobs": 7,
        "GrpTRES": 13,
        "GrpSubmit": 9,
    },
    **{"MaxJobs": 7, "MaxTRES": 13, "MaxSubmit": 9, "MaxWall": 11, "QOS": 20, "DefaultQOS": 9},
}
_WCKEY = {"WCKey": 10, "Cluster": 10, "User": 10}
_PROBLEM = {"Cluster": 10, "Account": 10, "User": 10, "Problem": 40}
_EVENT = {"Cluster": 10, "NodeName": 15, "TimeStart": 19, "TimeEnd": 19, "State": 6, "Reason": 30, "User": 10}
_TRANSACTION = {"Time": 19, "Action": 20, "Actor": 10, "Where": 20, "Info": 20}
_RESERVATION = {"Cluster": 10, "Name": 15, "TRES": 30, "TimeStart": 19, "TimeEnd": 19, "UnusedWall": 10}
_FIRST_16 = ",".join(name for name in _ASSOCIATION if name not in ("ParentName", "ID"))


def _all(widths: Mapping[str, int]) -> str:
    return ",".join(widths)


RUNAWAY = f"Runaway Jobs: No runaway jobs found on cluster {CLUSTER}\n"
ENTITIES = {
    "association": Entity(
        2,
        _ASSOCIATION,
        _FIRST_16,
        _associations,
        "User",
        {"DefaultQOS": "Def QOS"},
    ),
    "account": Entity(
        2,
        _ACCOUNT,
        "account,description,organization",
        _accounts,
        "Account",
        {"Description": "Descr", "Organization": "Org"},
    ),
    "cluster": Entity(2, _CLUSTER, _all(_CLUSTER), _clusters, "Cluster", {"DefaultQOS": "Def QOS"}),
    "configuration": Entity(2, {"Name": -30, "Value": -40}, "name,value", _config, "Name"),
    "event": Entity(1, _EVENT, _all(_EVENT), _none, "NodeName"),
    "problem": Entity(1, _PROBLEM, _all(_PROBLEM), _none, "User"),
    "qos": Entity(1, _QOS, _all(_QOS), _qos, "Name"),
    "reservation": Entity(4, _RESERVATION, _all(_RESERVATION), _reservations, "Name"),
    "runawayjobs": Entity(2, {"ID": 10}, "id", _none, "ID", {}, RUNAWAY),
    "tres": Entity(3, {"Type": 8, "Name": 15, "ID": 6}, "type,name,id", _tres, "Name"),
    "transaction": Entity(1, _TRANSACTION, _all(_TRANSACTION), _none, "Actor"),
    "user": Entity(
        1,
        _USER,
        "user,defaultaccount,adminlevel",
        _users,
        "User",
        {"DefaultAccount": "Def Acct", "AdminLevel": "Admin"},
    ),
    "wckey": Entity(1, _WCKEY, _all(_WCKEY), _none, "WCKey"),
}
"""Entity -> how it is shown; in the order in which a beginning is matched."""
WITH_ASSOCIATIONS = {
    "user": Entity(
        1,
        {**_USER, **_ASSOCIATION},
        "user,defaultaccount,adminlevel,cluster,account,partition,share,priority,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,"
        "maxcpumins,qos,defaultqos",
        _users_with_associations,
        "User",
        {"DefaultAccount": "Def Acct", "AdminLevel": "Admin", "DefaultQOS": "Def QOS"},
    ),
}
"""The same where `withassoc` was asked for: a line for each association."""
