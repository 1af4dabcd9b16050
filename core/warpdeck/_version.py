"""The version of warpdeck. The package metadata is built from this file, and `CONTRIBUTING.md` explains the numbers."""

__version__ = "0.9.0"
