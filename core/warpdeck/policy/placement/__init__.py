"""Chooses nodes, CPUs and GPUs for one request."""
