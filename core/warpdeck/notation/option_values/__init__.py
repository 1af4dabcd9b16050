"""The values of options: how Slurm reads and shows each value, and the fields that it sets in a job or a step."""
