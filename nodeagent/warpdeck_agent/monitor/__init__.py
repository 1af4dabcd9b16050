"""Samples processes, GPUs and health once a second."""
