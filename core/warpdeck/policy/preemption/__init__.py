"""Chooses the running jobs that make way for a job of higher rank."""
