"""Processes of users over Slurm: commands and terminals that are jobs, steps, and allocations that a client holds."""
