"""The command lines of srun and salloc, and the options of steps."""
