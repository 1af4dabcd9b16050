"""The entities that sacctmgr's `show` lists: one row for each, with the arguments that it accepts.

The rules were measured with Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .abbreviations import Name, names
from .entity_rows import (
    Row,
    account_rows,
    association_rows,
    cluster_rows,
    config_text,
    event_rows,
    no_rows,
    no_runaway_text,
    qos_rows,
    reservation_rows,
    stats_text,
    tres_rows,
    user_rows,
)
from .field_names import OF_WCKEYS, WORDS
from .transactions import transaction_rows

_USUAL = "set:3 where:5 WithDeleted:5"
_OF_PLACES = "WithAssoc:5 WithCoordinators:5 WithRawQOSLevel:5 WOPLimits:4 WOLimits:3"
_PLACE = "Accounts:2 Acct:4=Accounts IDs:1 Associations:2=IDs Clusters:1 DefaultQOS:8 Partitions:3 Parents:4 QOSLevel:1 Users:1"
"""Conditions on associations."""
PLACES = frozenset(each.meaning for each in names(_PLACE))


class ListedEntity(NamedTuple):
    """A kind of object that sacctmgr can show.

    If `text` is set, its output is printed instead of a table, and all arguments are ignored.
    """

    least: int
    """Minimum number of letters of the entity's name."""
    form: str = ""
    """Default of format=."""
    rows: Callable[[Any], list[Row]] = no_rows
    key: str = "Name"
    """Field that holds the name."""
    alone: str = "Names"
    """Condition that a word without = is a value of."""
    conditions: str = ""
    """Names of the conditions and flags, as `abbreviations.names` parses them."""
    flags: str = _USUAL
    more: Mapping[str, str] = {}
    """Flag -> fields that are added if the flag is given."""
    without_limits: str = ""
    """Default of format= with the flag WOLimits, if it is another one."""
    fields: tuple[Name, ...] = WORDS
    """Names of the fields in format=."""
    has_times: bool = False
    """Whether the conditions Start and End select rows."""
    number: str = "AssocId"
    """Slurm's name of IDs in messages; "" if they are not checked."""
    advises: bool = True
    """Whether the error for an unknown condition includes a hint."""
    text: Callable[[Any], str] | None = None


_TRANSACTION = ListedEntity(
    1,
    "time,action,actor,where,info",
    transaction_rows,
    "Actor",
    alone="IDs",
    conditions="IDs:1 Txn:1=IDs Accounts:3 Action:4 Actors:4 Clusters:3 End:1 Format:1 Start:1 Users:1",
    flags="where:5 WithAssocInfo:5",
    more={"WithAssocInfo": "user,account,cluster"},
    has_times=True,
    number="Transaction ID",
    advises=False,
)
_ASSOCIATION = "cluster,account,user,partition"
ENTITIES = {
    "association": ListedEntity(
        2,
        f"{_ASSOCIATION},share,priority,grpjobs,grptres,grpsubmit,grpwall,grptresmins,maxjobs,maxtres,maxtrespernode,"
        "maxsubmit,maxwall,maxtresmins,qos,defaultqos,grptresrunmins",
        association_rows,
        "User",
        alone="IDs",
        conditions=f"IDs:1 Associations:2=IDs Format:1 {_PLACE}",
        flags=(
            "OnlyDefaults:2 Tree:4 WithDeleted:5 WithRawQOSLevel:5 WithSubAccounts:5 WOPInfo:4 WOPLimits:4=WOLimits WOLimits:3 "
            "where:5"
        ),
        without_limits=_ASSOCIATION,
        advises=False,
    ),
    "account": ListedEntity(
        2,
        "account,description,organization",
        account_rows,
        "Account",
        conditions=f"Names:1 Accounts:1=Names Acct:4=Names Descriptions:1 Format:1 Organizations:1 {_PLACE}",
        flags=f"{_USUAL} {_OF_PLACES}",
        more={
            "WithAssoc": "cluster,parentname,user,share,priority,grpjobs,grpnodes,grpcpus,grpmem,grpsubmit,grpwall,"
            "grpcpumins,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,maxcpumins,qos,defaultqos",
            "WithCoordinators": "coordinators",
        },
    ),
    "cluster": ListedEntity(
        2,
        "cluster,controlhost,controlport,rpc,share,grpjobs,grptres,grpsubmit,maxjobs,maxtres,maxsubmit,maxwall,qos,defaultqos",
        cluster_rows,
        "Cluster",
        conditions="Names:1 Clusters:3=Names Federations:3 Classification:3 Flags:2 Format:2 PluginIDSelect:1 RPCVersions:1",
        flags=f"{_USUAL} WithFed:5 WOLimits:3",
        more={"WithFed": "federation,id,features,fedstate"},
        without_limits="cluster,controlhost,controlport,rpc",
    ),
    "configuration": ListedEntity(2, text=config_text),
    "event": ListedEntity(
        1,
        "cluster,nodename,start,end,state,reason,user",
        event_rows,
        "NodeName",
        alone="Events",
        conditions="Events:1 Clusters:2 CondFlags:2 End:1 Format:1 MinCpus:2 MaxCpus:2 Nodes:1 Reason:1 Start:4 States:4 Users:1",
        flags="all_clusters:5 all_time:5 where:5",
        has_times=True,
        advises=False,
    ),
    "federation": ListedEntity(
        1,
        "federation,cluster,id%2,features,fedstate",
        key="Federation",
        conditions="Names:1 Federations:3=Names Clusters:3 Format:2",
        flags=f"{_USUAL} Tree:4",
    ),
    "problem": ListedEntity(
        1,
        "cluster,account,user,problem",
        key="User",
        alone="IDs",
        conditions="IDs:1 Problems:2=IDs Accounts:2 Acct:4=Accounts Clusters:1 Format:1 Partitions:4 Users:1",
        flags="Tree:4 where:5",
        number="",
        advises=False,
    ),
    "qos": ListedEntity(
        1,
        "name,priority,gracetime,preempt,preemptexempttime,preemptmode,flags%40,usagethres,usagefactor,grptres,grptresmins,"
        "grptresrunmins,grpjobs,grpsubmit,grpwall,maxtres,maxtrespernode,maxtresmins,maxwall,maxtrespu,maxjobspu,maxsubmitpu,"
        "maxtrespa,maxjobspa,maxsubmitpa,mintres",
        qos_rows,
        conditions="Names:1 QOSLevel:1=Names Clusters:1=Descriptions Descriptions:1 Format:1 IDs:1 PreemptMode:8",
        number="QOS ID",
    ),
    "resource": ListedEntity(
        4,
        "name,server,type,count,allocated,servertype",
        conditions="Names:1 Clusters:3 Descriptions:3 Format:1 IDs:1 PercentAllowed:1 ServerType:7 Server:2",
        flags=f"{_USUAL} WithClusters:5",
        more={"WithClusters": "cluster,allowed"},
        number="",
    ),
    "reservation": ListedEntity(
        4,
        "cluster,name%15,tres%30,timestart,timeend,unused",
        reservation_rows,
        alone="",
        conditions="Clusters:1 End:1 Format:1 IDs:1 Names:2 Nodes:2 Start:5",
        flags="set:3 where:5",
        has_times=True,
        number="",
    ),
    "runawayjobs": ListedEntity(2, text=no_runaway_text),
    "stats": ListedEntity(1, text=stats_text),
    "tres": ListedEntity(
        3,
        "type,name%15,id",
        tres_rows,
        alone="Types",
        conditions="Types:2 Names:1 Format:1 IDs:1",
        number="",
    ),
    "transaction": _TRANSACTION,
    "txn": _TRANSACTION._replace(least=3),
    "user": ListedEntity(
        1,
        "user,defaultaccount,adminlevel",
        user_rows,
        "User",
        conditions=f"Names:1 Users:1=Names AdminLevel:2 Clusters:1 DefaultAccount:8 DefaultWCKey:8 Format:1 {_PLACE}",
        flags=f"{_USUAL} {_OF_PLACES}",
        more={
            "WithCoordinators": "coordinators",
            "WithAssoc": "cluster,account,partition,share,priority,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,maxcpumins,qos,"
            "defaultqos",
        },
    ),
    "wckey": ListedEntity(
        1,
        "wckey,cluster,user",
        key="WCKey",
        conditions="WCKeys:3=Names Names:3 IDs:1 Clusters:3 End:1 Format:1 Start:1 Users:1",
        flags="where:5 WithDeleted:5",
        fields=OF_WCKEYS,
        number="WCKeyID",
        advises=False,
    ),
}
"""Entity -> its row. An abbreviation means the first entity that it matches."""
NO_ENTITY = (
    "No valid entity in list command\n"
    'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"\n'
)


def name_of(word: str) -> str:
    """Return the name of the entity that a word means, in singular or plural and maybe abbreviated, or ""."""
    lowered = word.lower()
    for name, entity in ENTITIES.items():
        if len(lowered) >= entity.least and (name.startswith(lowered) or lowered == name + "s"):
            return name
    return ""
