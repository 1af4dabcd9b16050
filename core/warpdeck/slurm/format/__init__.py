"""Slurm's output formats: field tables, units, time stamps, state names."""
