"""warpdeck: the scheduler core, its store, its SSH fleet and the command line. Importing this imports nothing else."""

__version__ = "0.1.0"
