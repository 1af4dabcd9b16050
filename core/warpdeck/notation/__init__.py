"""Slurm's text forms: hostlists, times, memory, GRES, arrays, dependencies, %-patterns, and the #SBATCH grammar.

Pure, and light to import: the command line uses it without msgspec. Values for a request are plain dictionaries in the
JSON shape of model.Request, which the controller validates.
"""
