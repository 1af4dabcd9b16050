"""The names by which sacctmgr's format= knows a field: in full, shortened, and of the years before there were TRES. Pure.

`show qos format=name,maxtresperuser` prints what `maxtrespu` does, `grpcpus` the cpu= of GrpTRES. Source: sacctmgr's common.c.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.slurm.units import tres_text

LEAST = 3
"""Letters that must be written; Slurm's own table asks for two to eleven, and no two of its names differ that late."""
FULL = {
    "FairShare": "Share",
    "GrpCPUs": "GrpCPUs",
    "GrpCPUMins": "GrpCPUMins",
    "GrpMemory": "GrpMem",
    "GrpNodes": "GrpNodes",
    "GrpSubmitJobs": "GrpSubmit",
    "MaxCPUMinsPerJob": "MaxCPUMins",
    "MaxCPUsPerJob": "MaxCPUs",
    "MaxCPUsPerUser": "MaxCPUsPU",
    "MaxJobsPerAccount": "MaxJobsPA",
    "MaxJobsPerUser": "MaxJobsPU",
    "MaxNodesPerJob": "MaxNodes",
    "MaxNodesPerUser": "MaxNodesPU",
    "MaxSubmitJobsPerAccount": "MaxSubmitPA",
    "MaxSubmitJobsPerUser": "MaxSubmitPU",
    "MaxSubmitJobs": "MaxSubmit",
    "MaxSubmitPerUser": "MaxSubmitPU",
    "MaxTRESMinsPerJob": "MaxTRESMins",
    "MaxTRESPerAccount": "MaxTRESPA",
    "MaxTRESPerJob": "MaxTRES",
    "MaxTRESPerUser": "MaxTRESPU",
    "MaxWallDurationPerJob": "MaxWall",
    "MinTRESPerJob": "MinTRES",
    "QOSLevel": "QOS",
    "UsageThreshold": "UsageThres",
}
"""Another name -> the field's."""
PARTS = {
    "GrpCPUs": ("grp_tres", "cpu"),
    "GrpMem": ("grp_tres", "mem"),
    "GrpNodes": ("grp_tres", "node"),
    "GrpCPUMins": ("grp_tres_mins", "cpu"),
    "MaxCPUs": ("max_tres_per_job", "cpu"),
    "MaxNodes": ("max_tres_per_job", "node"),
    "MaxCPUMins": ("max_tres_mins_per_job", "cpu"),
    "MaxCPUsPU": ("max_tres_per_user", "cpu"),
    "MaxNodesPU": ("max_tres_per_user", "node"),
}
"""A field from before TRES -> the limit and what of it."""
PART_WIDTH = 11


def field_of(word: str, widths: Mapping[str, int]) -> str:
    """The field that a word means; "" for none."""
    lowered = word.lower()
    for names in ({name: name for name in widths}, FULL):
        for name, field in names.items():
            if lowered == name.lower() and field in widths:
                return field
    if len(lowered) < LEAST:
        return ""
    names = {**{name: name for name in widths}, **FULL}
    return next(
        (field for name, field in names.items() if name.lower().startswith(lowered) and field in widths), ""
    )


def part_values(limits: Mapping[str, object]) -> dict[str, str]:
    """The fields from before TRES, of these limits."""
    found = {}
    for field, (limit, kind) in PARTS.items():
        value = limits.get(limit)
        if isinstance(value, dict) and kind in value:
            found[field] = tres_text({kind: value[kind]}).partition("=")[2]
    return found
