"""Scripts with the names of Slurm's commands, to be installed on the PATH."""
