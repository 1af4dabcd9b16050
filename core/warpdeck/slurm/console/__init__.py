"""What all of Slurm's commands share: streams, environment, connection, argument parsing, prompts."""
