"""Parsers and formatters for Slurm's text forms: hostlists, times, memory, GRES, arrays, dependencies, %
patterns and #SBATCH lines.

The package is pure and cheap to import, because the command line uses it without msgspec. Values for a
request are plain dictionaries in the JSON form of `model.Request`, which the controller validates.
"""
