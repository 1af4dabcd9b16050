"""How busy the GPUs of running jobs are. slurmctld does not know it, so other programs measure it: agents of the site, or
small steps in the user's own jobs.
"""
