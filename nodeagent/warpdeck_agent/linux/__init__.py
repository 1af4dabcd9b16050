"""Thin wrappers of kernel interfaces. Nothing here knows of jobs."""
