"""The parts of an engine that read its jobs from a `State` and from the store.

The native engine's controller fills the state. The engine for Slurm fills it with the jobs that Slurm reports.
"""
