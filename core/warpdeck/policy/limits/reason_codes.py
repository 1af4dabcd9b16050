"""Slurm's reason codes for limits of QoS and associations.

Source: slurm.schedmd.com/job_reason_codes.html.
"""

JOBS_CODES = {
    ("QOS", "user"): "QOSMaxJobsPerUserLimit",
    ("QOS", "account"): "QOSMaxJobsPerAccountLimit",
    ("Assoc", "user"): "AssocMaxJobsLimit",
}
"""Reason codes for a user or account that already runs the maximum number of jobs."""


def reason_code(prefix: str, what: str, name: str) -> str:
    """Return Slurm's reason code for a limit on a TRES.

    `what` is Grp, GrpMinutes, GrpRunMinutes, PerJob, PerNode, PerUser, PerAccount, MinutesPerJob or Min.
    """
    kind = _kind(name)
    counted = kind in ("Cpu", "Node")
    if what == "Grp":
        return f"{prefix}Grp{kind}" + ("Limit" if counted or kind == "Mem" else "")
    if what == "GrpMinutes":
        return f"{prefix}GrpCPUMinutesLimit" if kind == "Cpu" else f"{prefix}Grp{kind}Minutes"
    if what == "GrpRunMinutes":
        return f"{prefix}GrpCPURunMinutesLimit" if kind == "Cpu" else f"{prefix}Grp{kind}RunMinutes"
    if what == "PerAccount":
        return f"Max{kind}PerAccount"
    if what == "Min":
        return f"{prefix}MinCpuNotSatisfied" if kind == "Cpu" else f"{prefix}Min{kind}"
    if what == "MinutesPerJob":
        return f"{prefix}Max{kind}MinutesPerJob" + ("Limit" if counted else "")
    if kind == "Mem" and prefix == "QOS":
        return f"QOSMaxMemory{what}"
    return f"{prefix}Max{kind}{what}" + ("Limit" if counted else "")


def _kind(name: str) -> str:
    if name.startswith("gres/"):
        return "GRES"
    if name.startswith("license/"):
        return "License"
    return name.capitalize()
