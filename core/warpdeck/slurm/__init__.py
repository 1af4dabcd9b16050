"""Slurm's commands under Slurm's names: their options, outputs, messages and exit codes. One module per command."""
