"""Runs of programs: their parameters, and the metrics that they print, read from the output of jobs."""
