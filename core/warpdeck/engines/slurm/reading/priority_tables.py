"""Priorities, shares and QoS, as sprio, sshare and sacctmgr print them. The functions are pure.

All formats exist in every version from 20.11 on. The texts are numbers and names that administrators choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from warpdeck.model import JobId
from warpdeck.protocol.site_rows import QosRow, ShareRow

from . import values

SPRIO = ("sprio", "--noheader", "--format=%i|%r|%Y|%A|%F|%J|%P|%Q|%N|%T")
PARTS = ("age_part", "fairshare_part", "job_size_part", "partition_part", "qos_part")
SSHARE = (
    "sshare",
    "--all",
    "--parsable2",
    "--format=Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,LevelFS,FairShare",
)
QOS_COLUMNS = (
    *("Name", "Priority", "Preempt", "PreemptMode", "GraceTime", "UsageFactor", "GrpTRES", "GrpTRESMins"),
    *(
        "GrpTRESRunMins",
        "GrpJobs",
        "GrpSubmit",
        "GrpWall",
        "MaxTRES",
        "MaxTRESPerNode",
        "MaxTRESMins",
        "MaxWall",
    ),
    *("MaxTRESPU", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPA", "MaxJobsPA", "MaxSubmitPA", "MinTRES"),
)
SACCTMGR_QOS = ("sacctmgr", "--parsable2", "show", "qos", f"format={','.join(QOS_COLUMNS)}")
_TRES_LIMITS = {
    "GrpTRES": "grp_tres",
    "GrpTRESMins": "grp_tres_mins",
    "GrpTRESRunMins": "grp_tres_run_mins",
    "MaxTRES": "max_tres_per_job",
    "MaxTRESPerNode": "max_tres_per_node",
    "MaxTRESMins": "max_tres_mins_per_job",
    "MaxTRESPU": "max_tres_per_user",
    "MaxTRESPA": "max_tres_per_account",
    "MinTRES": "min_tres_per_job",
}
_NUMBER_LIMITS = {
    "GrpJobs": "grp_jobs",
    "GrpSubmit": "grp_submit",
    "MaxJobsPU": "max_jobs_per_user",
    "MaxSubmitPU": "max_submit_per_user",
    "MaxJobsPA": "max_jobs_per_account",
    "MaxSubmitPA": "max_submit_per_account",
}
_TIME_LIMITS = {"GrpWall": "grp_wall_s", "MaxWall": "max_wall_s"}
MIB = 1024 * 1024


def read_priorities(text: str) -> dict[JobId, dict[str, float]]:
    """Return the parts of the priority by job. For a job in several partitions, the highest priority counts."""
    found: dict[JobId, dict[str, float]] = {}
    for line in text.splitlines():
        number, _, priority, *rest = [word.strip() for word in line.split("|")] + [""] * 3
        if not number.isdigit() or len(rest) < len(PARTS) + 2:
            continue
        parts = {name: _float(word) for name, word in zip(PARTS, rest, strict=False)}
        parts |= {"priority": _float(priority), "nice": _float(rest[len(PARTS)])}
        tres = values.tres(rest[len(PARTS) + 1])
        parts |= {f"tres:{name}": _float(value) for name, value in tres.items()}
        job = JobId(int(number))
        if parts["priority"] >= found.get(job, {"priority": -1.0})["priority"]:
            found[job] = parts
    return found


def read_weights(config: Mapping[str, str]) -> dict[str, float]:
    """Return the maximum of each part of the priority, from the configuration. Parts without weight are left out."""
    named = {
        "age": "PriorityWeightAge",
        "fairshare": "PriorityWeightFairShare",
        "job_size": "PriorityWeightJobSize",
        "partition": "PriorityWeightPartition",
        "qos": "PriorityWeightQOS",
    }
    found = {part: _float(config.get(key, "")) for part, key in named.items()}
    found |= {
        name: _float(value) for name, value in values.tres(config.get("PriorityWeightTRES", "")).items()
    }
    return {part: weight for part, weight in found.items() if weight}


def read_shares(text: str) -> list[ShareRow]:
    """Return the tree of accounts in Slurm's order. sshare indents an account by its depth."""
    path: list[str] = []
    rows = []
    for fields in _records(text):
        name = fields["Account"].strip()
        depth = len(fields["Account"]) - len(fields["Account"].lstrip())
        user = fields.get("User", "").strip()
        if not user:
            path[depth:] = [name]
        usage = _float(fields.get("RawUsage", ""))
        used = _float(fields.get("NormUsage") or fields.get("EffectvUsage", ""))
        rows.append(
            ShareRow(
                account=name,
                user=user,
                parent="" if user or depth == 0 or depth > len(path) else path[depth - 1],
                depth=depth,
                shares=int(_float(fields.get("RawShares", ""))) or 1,
                # Slurm gives the account of the whole cluster no share, and all of a use of nothing.
                norm_shares=1.0 if depth == 0 and not user else _float(fields.get("NormShares", "")),
                usage=usage,
                norm_usage=used if usage else 0.0,
                level_fs=_optional(fields.get("LevelFS", "")),
                fairshare=_optional(fields.get("FairShare", "")),
            )
        )
    return rows


def read_qos(text: str) -> list[QosRow]:
    """Return the QoS in Slurm's order."""
    return [_qos(fields) for fields in _records(text)]


def _qos(fields: Mapping[str, str]) -> QosRow:
    limits: dict[str, dict[str, int] | int] = {}
    for key, name in _TRES_LIMITS.items():
        if tres := values.tres(fields.get(key, "")):
            limits[name] = {kind: _amount(kind, value) for kind, value in tres.items()}
    for key, name in _NUMBER_LIMITS.items():
        if fields.get(key, "").isdigit():
            limits[name] = int(fields[key])
    for key, name in _TIME_LIMITS.items():
        seconds = values.duration_s(fields[key]) if fields.get(key) else None
        if seconds is not None:
            limits[name] = seconds
    mode = fields.get("PreemptMode", "")
    return QosRow(
        name=fields["Name"],
        priority=int(_float(fields.get("Priority", ""))),
        preempts=[name for name in fields.get("Preempt", "").split(",") if name],
        preempt_mode="" if mode == "cluster" else mode,
        grace_s=values.duration_s(fields.get("GraceTime", "")) or 0,
        usage_factor=_float(fields.get("UsageFactor", "")),
        limits=limits,
    )


def _amount(kind: str, text: str) -> int:
    return values.size_bytes(text) // MIB if kind == "mem" else int(_float(text))


def _records(text: str) -> Iterator[dict[str, str]]:
    """Yield the records of a table with a header and the separator |."""
    lines: Iterable[str] = text.splitlines()
    header: list[str] = []
    for line in lines:
        cells = line.split("|")
        if not header:
            header = [cell.strip() for cell in cells]
        elif len(cells) == len(header):
            yield dict(zip(header, cells, strict=True))


def _float(text: str) -> float:
    return _optional(text) or 0.0


def _optional(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None
