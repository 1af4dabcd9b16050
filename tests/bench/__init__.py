"""Benchmarks: medians of real runs on this machine, compared with other installed schedulers.

Run `make bench`.
"""
