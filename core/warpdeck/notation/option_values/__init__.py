"""The table of the values of options: how Slurm reads and shows each, and the fields that it sets in a job or step."""
