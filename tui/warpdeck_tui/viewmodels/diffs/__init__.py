"""Differences between the code and the options of two jobs, parsed and laid out."""
