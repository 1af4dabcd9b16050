"""Slurm's output formats: field tables, units, timestamps and state names."""
