"""Benchmarks: medians of real runs on this machine, compared with other schedulers where they are installed.
Run `make bench`.
"""
