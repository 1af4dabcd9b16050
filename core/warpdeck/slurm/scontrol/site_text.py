"""Lines of `scontrol show` for nodes, partitions, reservations and licenses, in Slurm's layout. Pure.

Source: Slurm's own output.
"""

from __future__ import annotations

from warpdeck.base.passwd import uid_of
from warpdeck.base.slurm_version import RELEASE
from warpdeck.slurm.fields.field import Field, Row, sent, shaped
from warpdeck.slurm.fields.key_lines import KeyLines
from warpdeck.slurm.fields.node_fields import NODE, author
from warpdeck.slurm.fields.partition_fields import PARTITION
from warpdeck.slurm.fields.reservation_fields import RESERVATION
from warpdeck.slurm.format.units import clock, moment

NODE_LAYOUT = f"""
NodeName=name Arch=arch? CoresPerSocket=cores|blank
CPUAlloc=cpus_used CPUEfctv=cpus CPUTot=cpus CPULoad=load
AvailableFeatures=features|(null)
ActiveFeatures=features|(null)
Gres=gres|(null)
GresDrain=gres_drain?!
GresUsed=gres_used?!
NodeAddr=address NodeHostName=hostname Version=={RELEASE}
OS=kernel|blank?
RealMemory=memory AllocMem=memory_used FreeMem=free_memory|known Sockets=sockets Boards==1
State=state|upper ThreadsPerCore=threads TmpDisk=tmp_disk Weight=weight Owner=owner_id MCS_label==N/A
Partitions=partition_names
BootTime=booted|moment-none SlurmdStartTime=agent_start|moment-none
LastBusyTime=at|moment
CfgTRES=tres|tres-text
AllocTRES=tres_used|tres-text
CapWatts==n/a
CurrentWatts==0 AveWatts==0
ExtSensorsJoules==n/s ExtSensorsWatts==0 ExtSensorsTemp==n/s
Reason=reason_by?
Comment=comment?
Extra=extra?
"""
PARTITION_LAYOUT = """
PartitionName=name
AllowGroups=allowed_groups AllowAccounts=allowed_accounts? DenyAccounts=denied_accounts? AllowQos=allowed_qos? DenyQos=denied_qos?
AllocNodes==ALL Default=default|yes QoS=qos|N/A
DefaultTime=default_time_s|clock-none DisableRootJobs==NO ExclusiveUser=exclusive_user|yes GraceTime=grace_s Hidden==NO
MaxNodes=max_nodes|UNLIMITED MaxTime=max_time_s|clock MinNodes=min_nodes LLN==NO MaxCPUsPerNode==UNLIMITED
Nodes=node_list|(null)
PriorityJobFactor=priority_job_factor PriorityTier=priority_tier RootOnly==NO ReqResv==NO OverSubscribe=oversubscribe
OverTimeLimit==NONE PreemptMode=preempt_mode
State=state TotalCPUs=cpus TotalNodes=nodes SelectTypeParameters==NONE
JobDefaults==(null)
DefMemPerNode==UNLIMITED MaxMemPerNode==UNLIMITED
TRES=tres|tres
"""
RESERVATION_LAYOUT = """
ReservationName=name StartTime=start|moment EndTime=end|moment Duration=lasts_s|clock
Nodes=node_list|(null) NodeCnt=node_count CoreCnt=cores Features=features|(null) PartitionName=partition|(null) Flags=flags|joined
TRES=tres|tres
Users=users|(null) Groups=groups|(null) Accounts=accounts|(null) Licenses=licenses|(null) State=state BurstBuffer=burst_buffer|(null) \
Watts=watts_text
MaxStartDelay=start_delay
"""
LICENSE_LAYOUT = """
LicenseName=name
Total=total Used=used Free=free Reserved=reserved Remote==no
"""
LICENSE: dict[str, Field] = {
    **sent("name reserved total used"),
    "free": Field("", lambda row: row["total"] - row["used"]),
}
"""The fields of one of the site's licenses."""


def _load(load: float | None) -> str:
    return "N/A" if load is None else f"{load:.2f}"


def _owner(name: str) -> str:
    uid = uid_of(name) if name else None
    return f"{name}({uid})" if uid is not None else name or "N/A"


def _reason(node: Row) -> str:
    return f"{node['reason']} [{author(node)}@{moment(node['reason_at'])}]" if node["reason"] else ""


def _allowed(what: str) -> Field:
    """Return the allowed names, or "" if some names are denied in their place."""

    def text(row: Row) -> str:
        names = row[f"allow_{what}"]
        if names is None:
            return "" if row.get(f"deny_{what}") else "ALL"
        return ",".join(names) or "NONE"

    return Field("", text)


def _denied(what: str) -> Field:
    return Field("", lambda row: ",".join(row[f"deny_{what}"]) if row[f"allow_{what}"] is None else "")


NODE_TEXT = KeyLines(
    NODE_LAYOUT,
    {
        **NODE,
        "gres_drain": shaped(NODE["gres"], lambda gres: "N/A" if gres else ""),
        "load": shaped(NODE["cpu_load"], _load),
        "owner_id": shaped(NODE["owner"], _owner),
        "partition_names": shaped(NODE["partitions"], lambda names: f"{','.join(names)} "),
        "reason_by": Field("", _reason),
    },
)
PARTITION_TEXT = KeyLines(
    PARTITION_LAYOUT,
    {
        **PARTITION,
        **{f"allowed_{what}": _allowed(what) for what in ("accounts", "groups", "qos")},
        **{f"denied_{what}": _denied(what) for what in ("accounts", "qos")},
    },
)
RESERVATION_TEXT = KeyLines(
    RESERVATION_LAYOUT,
    {
        **RESERVATION,
        "start_delay": shaped(
            RESERVATION["max_start_delay_s"], lambda delay: clock(delay or None, none="(null)")
        ),
    },
)
LICENSE_TEXT = KeyLines(LICENSE_LAYOUT, LICENSE)
