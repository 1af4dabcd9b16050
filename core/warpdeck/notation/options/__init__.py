"""The table of the options of sbatch, salloc and srun, and the ways in which they are given: command line,
script, environment.
"""
