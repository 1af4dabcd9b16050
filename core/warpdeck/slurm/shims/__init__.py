"""Slurm's command names as small programs on the PATH."""
