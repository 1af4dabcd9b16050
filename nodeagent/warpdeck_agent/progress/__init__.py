"""Notices that a job makes no progress, and takes evidence from its processes."""
