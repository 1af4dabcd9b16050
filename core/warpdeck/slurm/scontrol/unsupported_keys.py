"""Keys of `scontrol update JobId=` in Slurm 22.05 to 26.05 that have no meaning here, and the reasons."""

from __future__ import annotations

_SOCKETS = "CPUs are not chosen by socket"
_RESERVED = "no CPUs of a node are reserved for the system"
_ONE_CLUSTER = "there is one cluster here, called warpdeck"
_FILES = "only StdOut of a pending job can be changed"
_REASONS = {
    "burstbuffer": "there are no burst buffers",
    "clusterfeatures": _ONE_CLUSTER,
    "clusters": _ONE_CLUSTER,
    "corespec": _RESERVED,
    "delayboot": "nodes are not booted for a job",
    "extra": "--extra has no effect here; write Comment=TEXT",
    "mcslabel": "jobs have no MCS labels",
    "memupdate": "the memory of a running job is not changed; submit with --mem=SIZE",
    "mintmpdisknode": "submit the job again with --tmp",
    "numcpus": "write NumTasks or CPUsPerTask",
    "prefer": "submit the job again with --prefer",
    "reboot": "nodes are not rebooted for a job",
    "reqcores": _SOCKETS,
    "reqsockets": _SOCKETS,
    "reqthreads": _SOCKETS,
    "resetaccruetime": "the age of a job counts from its submission",
    "segmentsize": "nodes have no blocks that a job could be divided over",
    "sitefactor": "there is no site factor; write Priority or Nice",
    "stderr": _FILES,
    "stdin": _FILES,
    "threadspec": _RESERVED,
    "userid": "it only selects the jobs of JobName=NAME",
    "wckey": "jobs have no wckeys",
}


def unsupported_reason(key: str) -> str:
    """Return the line after Slurm's message about a key; "" if Slurm does not have the key either."""
    reason = _REASONS.get(key.lower(), "")
    return f"\n{reason}" if reason else ""
