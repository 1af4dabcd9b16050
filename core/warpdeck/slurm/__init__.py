"""Slurm-compatible commands with Slurm's options, output, messages and exit codes, one module per command.

`command_table` maps a command name to its module.
"""
