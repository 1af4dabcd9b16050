"""Explains why a job waits, and estimates when it starts."""
