"""Turns options into the request of a job."""
