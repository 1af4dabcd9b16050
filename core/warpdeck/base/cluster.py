"""What a cluster of ours is called where Slurm's programs ask for a name."""

CLUSTER_NAME = "warpdeck"
CLUSTER_OPTIONS = frozenset({"cluster", "clusters"})
ALL_NODES = "main"
"""The one nameless partition of a site that has none set up."""
NORMAL_QOS = "normal"
"""That of jobs that name none, there whether a site sets it up or not."""


def other_cluster(text: str) -> str:
    """The first name of a list of clusters that is not this one's; "" if all are."""
    names = [name for name in text.split(",") if name]
    return next((name for name in names if name not in (CLUSTER_NAME, "all")), "")
