"""Benchmarks: medians of real runs on this machine, beside its peers where they are installed. `make bench`."""
