"""What a cluster of ours is called where Slurm's programs ask for a name."""

CLUSTER_NAME = "warpdeck"
ALL_NODES = "main"
"""The one nameless partition of a site that has none set up."""
