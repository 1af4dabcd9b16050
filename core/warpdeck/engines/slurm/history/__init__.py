"""The history of jobs: what Slurm's accounting knows about jobs that have ended, and usage over time."""
