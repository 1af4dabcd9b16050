"""View models of nodes and GPUs, now and in the past."""
