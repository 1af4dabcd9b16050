"""The table of runs: jobs with their parameters and metrics as columns."""
