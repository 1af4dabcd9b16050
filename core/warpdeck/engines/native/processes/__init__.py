"""Commands that clients run with their streams: run, sessions, srun and salloc."""
