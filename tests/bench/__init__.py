"""Benchmarks: medians of real runs on this machine. `make bench`."""
