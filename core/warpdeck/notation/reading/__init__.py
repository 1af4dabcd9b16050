"""Reads all options of a job once, each with its value: from the script, from variables and from the command line.

Everything that needs options uses this result: the validation by Slurm's rules, the request, and the step.
"""
