"""What a cluster of ours is called where Slurm's programs ask for a name."""

CLUSTER_NAME = "warpdeck"
