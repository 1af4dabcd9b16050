"""Pending reasons of waiting jobs, and estimates of their starts."""
