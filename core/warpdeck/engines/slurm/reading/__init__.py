"""Reads the tables that Slurm's commands print. All functions are pure."""
