"""The cluster name and the default names of partition and QoS, for Slurm's commands."""

CLUSTER_NAME = "warpdeck"
CLUSTER_OPTIONS = frozenset({"cluster", "clusters"})
ALL_NODES = "main"
"""Name of the only partition of a site that configures none."""
NORMAL_QOS = "normal"
"""Name of the QoS of jobs that request none. It exists even if the site does not configure it."""


def other_cluster(text: str) -> str:
    """Return the first name in a comma-separated list of clusters that is not this cluster, or ""."""
    names = [name for name in text.split(",") if name]
    return next((name for name in names if name not in (CLUSTER_NAME, "all")), "")
