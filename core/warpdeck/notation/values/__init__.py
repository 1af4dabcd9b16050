"""Parsers and formatters of Slurm's single values: durations, sizes, host lists, job ids, GRES counts and
others.
"""
