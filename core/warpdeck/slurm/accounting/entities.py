"""What sacctmgr can show: of each entity its fields with their widths, and its rows as the controller has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from warpdeck.cluster import CLUSTER_NAME as CLUSTER
from warpdeck.cluster import NORMAL_QOS
from warpdeck.slurm.accounttree import ROOT, in_tree
from warpdeck.slurm.units import clock, moment, tres_text

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
PER_USER = {"max_jobs_per_user": "MaxJobsPU", "max_submit_per_user": "MaxSubmitPU"}
"""The same by the names that they have in a QoS."""
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
    ("fs", "disk", 6),
    ("vmem", "", 7),
    ("pages", "", 8),
    ("gres", "gpu", 1001),
)
FIRST_QOS_ID = 1
STATS_RULE = "*" * 67


class Entity(NamedTuple):
    """`key` is the field that a plain name means; what `text` makes is printed instead of a table."""

    least: int
    widths: Mapping[str, int]
    default: str
    rows: Callable[[Any], list[Row]]
    key: str = ""
    titles: Mapping[str, str] = {}
    text: Callable[[Any], str] | None = None


def find(word: str, *, with_associations: bool = False) -> Entity | None:
    """The entity that a word, perhaps shortened or in the plural, means."""
    name = name_of(word)
    if with_associations and name in WITH_ASSOCIATIONS:
        return WITH_ASSOCIATIONS[name]
    return ENTITIES.get(name)


def name_of(word: str) -> str:
    """Of that entity; "" where it means none."""
    lowered = word.lower()
    for name, entity in ENTITIES.items():
        if len(lowered) >= entity.least and (name.startswith(lowered) or lowered == name + "s"):
            return name
    return ""


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
    """In the order of the tree; "above" is how deep."""
    every = sorted({NORMAL_QOS, *(row["name"] for row in client.call("qos")["qos"])})
    return [_association(row, above, every) for row, above in in_tree(client.call("shares")["shares"])]


def _association(row: Mapping[str, Any], above: Sequence[str], every: list[str]) -> Row:
    return {
        "Cluster": CLUSTER,
        "Account": row["account"],
        "User": row["user"],
        "ParentName": above[-1] if above and not row["user"] else "",
        "Share": str(row["shares"] or 1),
        "QOS": ",".join(every if row["qos"] is None else row["qos"]),
        "DefaultQOS": row["default_qos"],
        "above": " " * len(above),
        **_limits(row["limits"], OF_ASSOCIATION),
        **_limits(row["limits"], PER_USER),
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
    accounts = ",".join(row["account"] for row in rows)
    return {"User": name, "DefaultAccount": default, "AdminLevel": admin, "accounts": accounts}


def _users_with_associations(client: Any) -> list[Row]:
    users = {row["User"]: row for row in _users(client)}
    rows = [users[row["User"]] | row for row in _associations(client) if row.get("User")]
    return sorted(rows, key=lambda row: (row["User"], row["Account"]))


def _accounts(client: Any) -> list[Row]:
    shares = client.call("shares")["shares"]
    rows = [_account(row) for row, _ in in_tree(shares) if not row["user"]]
    return sorted(rows, key=lambda row: row["Account"])


def _account(row: Mapping[str, Any]) -> Row:
    name = row["account"]
    if name == ROOT and not row["shares"]:
        return {"Account": name, "Description": "default root account", "Organization": name}
    return {
        "Account": name,
        "Description": row["description"] or name,
        "Organization": row["organization"] or row["parent"] or name,
    }


def _accounts_with_associations(client: Any) -> list[Row]:
    accounts = {row["Account"]: row for row in _accounts(client)}
    rows = [accounts[row["Account"]] | row for row in _associations(client)]
    return sorted(rows, key=lambda row: (row["Account"], row["User"]))


def _qos(client: Any) -> list[Row]:
    """The usual one first, as a database has it."""
    found = [
        {
            "Name": row["name"],
            "Description": row["name"],
            "Priority": str(row["priority"]),
            "GraceTime": clock(row["grace_s"]),
            "Preempt": ",".join(row["preempts"]),
            "PreemptMode": row["preempt_mode"] or "cluster",
            "UsageFactor": f"{row['usage_factor']:.6f}",
            **_limits(row["limits"], OF_QOS),
        }
        for row in client.call("qos")["qos"]
    ]
    if all(row["Name"] != NORMAL_QOS for row in found):
        normal = {"Name": NORMAL_QOS, "Priority": "0", "GraceTime": "00:00:00", "PreemptMode": "cluster"}
        found.append(normal | {"Description": "Normal QOS default", "UsageFactor": "1.000000"})
    found.sort(key=lambda row: row["Name"] != NORMAL_QOS)
    return [{**row, "ID": str(number)} for number, row in enumerate(found, FIRST_QOS_ID)]


def _clusters(client: Any) -> list[Row]:
    host = client.call("status")["host"]
    return [
        {
            "Cluster": CLUSTER,
            "ControlHost": host,
            "ControlPort": "0",
            "RPC": "9728",
            "Share": "1",
            "QOS": ",".join(sorted({NORMAL_QOS, *(row["name"] for row in client.call("qos")["qos"])})),
            "Classification": "none",
            "PluginIDSelect": "109",
        }
    ]


def _tres(client: Any) -> list[Row]:
    return [{"Type": kind, "Name": name, "ID": str(number)} for kind, name, number in TRES]


def _none(client: Any) -> list[Row]:
    return []


def _config(client: Any) -> str:
    values = client.call("settings")["settings"]
    lines = [f"{name:<22} = {value or '(null)'}" for name, value in sorted(values.items())]
    return "\n".join([f"Configuration data as of {moment(time.time())}", *lines, ""])


def _stats(client: Any) -> str:
    """Of the controller, which keeps the history itself: as sdiag has them."""
    from warpdeck.slurm.sdiag import moment_told, requests_told

    figures = client.call("diagnosis")
    title = f"sacctmgr show stats output at {moment_told(figures['now'])}"
    since = f"Data since                    {moment_told(figures['since'])}"
    return "\n".join(
        [
            STATS_RULE,
            title,
            since,
            "All statistics are in microseconds",
            STATS_RULE,
            "",
            *requests_told(figures, {}),
            "",
        ]
    )


def _no_runaway(client: Any) -> str:
    return f"Runaway Jobs: No runaway jobs found on cluster {CLUSTER}\n"


def _reservations(client: Any) -> list[Row]:
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
        "MaxJobsPU": 9,
        "MaxSubmitPU": 11,
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
_QOS_UNASKED = {"ID": 6, "Description": 20}
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
_CLUSTER_UNASKED = {
    **{
        "Classification": 14,
        "ClusterNodes": 20,
        "Flags": 20,
        "NodeCount": 9,
        "PluginIDSelect": 14,
        "TRES": 20,
    },
    **{"Features": 20, "FedState": 12, "ID": 2},
}
_WCKEY = {"WCKey": 10, "Cluster": 10, "User": 10}
_PROBLEM = {"Cluster": 10, "Account": 10, "User": 10, "Problem": 40}
_EVENT = {
    "Cluster": 10,
    "NodeName": -15,
    "TimeStart": 19,
    "TimeEnd": 19,
    "State": 6,
    "Reason": 30,
    "User": 10,
}
_TRANSACTION = {"Time": 19, "Action": 20, "Actor": 10, "Where": 20, "Info": 20}
_RESERVATION = {"Cluster": 10, "Name": 15, "TRES": 30, "TimeStart": 19, "TimeEnd": 19, "UnusedWall": 10}
_RESOURCE = {"Name": 10, "Server": 10, "Type": 8, "Count": 6, "Allocated": 11, "ServerType": 10}
_FEDERATION = {"Federation": 10, "Cluster": 10, "ID": 2, "Features": 20, "FedState": 12}
_FIRST_16 = ",".join(name for name in _ASSOCIATION if name not in ("ParentName", "ID", *PER_USER.values()))


def _all(widths: Mapping[str, int]) -> str:
    return ",".join(widths)


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
    "cluster": Entity(
        2, {**_CLUSTER, **_CLUSTER_UNASKED}, _all(_CLUSTER), _clusters, "Cluster", {"DefaultQOS": "Def QOS"}
    ),
    "configuration": Entity(2, {"Name": -30}, "name", _none, "Name", {}, _config),
    "event": Entity(1, _EVENT, _all(_EVENT), _none, "NodeName"),
    "federation": Entity(1, _FEDERATION, _all(_FEDERATION), _none, "Federation"),
    "problem": Entity(1, _PROBLEM, _all(_PROBLEM), _none, "User"),
    "qos": Entity(1, {**_QOS, **_QOS_UNASKED}, _all(_QOS), _qos, "Name", {"Description": "Descr"}),
    "resource": Entity(4, _RESOURCE, _all(_RESOURCE), _none, "Name", {"Allocated": "% Allocated"}),
    "reservation": Entity(4, _RESERVATION, _all(_RESERVATION), _reservations, "Name"),
    "runawayjobs": Entity(2, {"ID": 10}, "id", _none, "ID", {}, _no_runaway),
    "stats": Entity(1, {"Name": 10}, "name", _none, "Name", {}, _stats),
    "tres": Entity(3, {"Type": 8, "Name": 15, "ID": 6}, "type,name,id", _tres, "Name"),
    "transaction": Entity(1, _TRANSACTION, _all(_TRANSACTION), _none, "Actor"),
    "txn": Entity(3, _TRANSACTION, _all(_TRANSACTION), _none, "Actor"),
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
    "account": Entity(
        2,
        {**_ACCOUNT, **_ASSOCIATION},
        "account,description,organization,cluster,parentname,user,share,priority,grpjobs,grpnodes,grpcpus,grpmem,grpsubmit,"
        "grpwall,grpcpumins,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,maxcpumins,qos,defaultqos",
        _accounts_with_associations,
        "Account",
        {"Description": "Descr", "Organization": "Org", "DefaultQOS": "Def QOS"},
    ),
}
"""The same where `withassoc` was asked for: a line for each association."""
