"""Holds jobs to their resources and finds all of their processes: cgroups, device access, private folders."""
