"""Starts Slurm's commands: from a shell, from a job, and in the controller's worker process."""
