"""The limits of accounts, users and QoS: their keys in config.toml and sacctmgr's names for them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from warpdeck.slurm.format.units import clock, tres_text


class Limit(NamedTuple):
    """A limit of associations (accounts and users) and of QoS, or only of QoS.

    `label` and `qos_label` are the names in the description of a change, if they are not those of the fields.
    """

    key: str
    kind: Literal["count", "tres", "wall"]
    field: str
    """Field of associations; "" if only QoS have the limit."""
    of_qos: str = ""
    """Field of QoS, if it is another one. `show` prints the limit in both fields."""
    label: str = ""
    qos_label: str = ""


LIMITS = (
    Limit("grp_jobs", "count", "GrpJobs"),
    Limit("grp_submit", "count", "GrpSubmit", label="GrpSubmitJobs", qos_label="GrpSubmitJobs"),
    Limit("grp_tres", "tres", "GrpTRES"),
    Limit("grp_tres_mins", "tres", "GrpTRESMins"),
    Limit("grp_tres_run_mins", "tres", "GrpTRESRunMins"),
    Limit("grp_wall", "wall", "GrpWall"),
    Limit("max_tres_per_job", "tres", "MaxTRES", qos_label="MaxTRESPerJob"),
    Limit("max_tres_per_node", "tres", "MaxTRESPerNode"),
    Limit("max_tres_mins_per_job", "tres", "MaxTRESMins", qos_label="MaxTRESMinsPerJob"),
    Limit("max_wall", "wall", "MaxWall"),
    Limit("max_jobs_per_user", "count", "MaxJobs", "MaxJobsPU", "", "MaxJobsPerUser"),
    Limit(
        "max_submit_per_user", "count", "MaxSubmit", "MaxSubmitPU", "MaxSubmitJobs", "MaxSubmitJobsPerUser"
    ),
    Limit("max_tres_per_user", "tres", "", "MaxTRESPU", qos_label="MaxTRESPerUser"),
    Limit("max_tres_per_account", "tres", "", "MaxTRESPA", qos_label="MaxTRESPerAccount"),
    Limit("max_jobs_per_account", "count", "", "MaxJobsPA", qos_label="MaxJobsPerAccount"),
    Limit("max_submit_per_account", "count", "", "MaxSubmitPA", qos_label="MaxSubmitJobsPerAccount"),
    Limit("min_tres_per_job", "tres", "", "MinTRES", qos_label="MinTRESPerJob"),
)
OF_ASSOCIATION = tuple(limit for limit in LIMITS if limit.field)
PARTS = {
    "GrpCPUs": ("grp_tres", "cpu"),
    "GrpMem": ("grp_tres", "mem"),
    "GrpNodes": ("grp_tres", "node"),
    "GrpCPUMins": ("grp_tres_mins", "cpu"),
    "GrpCPURunMins": ("grp_tres_run_mins", "cpu"),
    "MaxCPUs": ("max_tres_per_job", "cpu"),
    "MaxNodes": ("max_tres_per_job", "node"),
    "MaxCPUMins": ("max_tres_mins_per_job", "cpu"),
    "MaxCPUsPU": ("max_tres_per_user", "cpu"),
    "MaxNodesPU": ("max_tres_per_user", "node"),
    "MinCPUs": ("min_tres_per_job", "cpu"),
}
"""Old field, from before Slurm had TRES -> the limit and the TRES in it."""
_TEXTS: Mapping[str, Callable[[Any], str]] = {"count": str, "tres": tres_text, "wall": clock}


def limit_texts(values: Mapping[str, Any], limits: tuple[Limit, ...] = LIMITS) -> dict[str, str]:
    """Return the fields of the limits with these values, as the controller reports them."""
    found: dict[str, str] = {}
    for limit in limits:
        value = values.get(f"{limit.key}_s" if limit.kind == "wall" else limit.key, values.get(limit.key))
        if value is not None:
            text = _TEXTS[limit.kind](value)
            found |= {field: text for field in (limit.field, limit.of_qos) if field}
    for field, (key, tres) in PARTS.items():
        if tres in (counts := values.get(key) or {}):
            found[field] = tres_text({tres: counts[tres]}).partition("=")[2]
    return found
