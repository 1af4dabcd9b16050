"""The syntax of the options of sbatch, salloc and srun: on a command line, in a script, and in variables."""
