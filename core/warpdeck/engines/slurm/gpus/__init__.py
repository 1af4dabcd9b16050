"""How busy the GPUs of running jobs are. slurmctld does not know it, so programs in the user's own jobs measure it."""
