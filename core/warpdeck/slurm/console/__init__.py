"""Code that all Slurm-compatible commands share: streams, connection, argument parsing and prompts."""
