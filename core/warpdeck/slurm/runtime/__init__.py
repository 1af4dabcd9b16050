"""Entry points of the Slurm-compatible commands, for shells, jobs and the controller's worker process."""
