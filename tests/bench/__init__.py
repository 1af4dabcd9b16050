"""Benchmarks: medians of real runs on this machine, each beside its budget."""
