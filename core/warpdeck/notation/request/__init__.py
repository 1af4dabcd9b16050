"""Turns options into a resource request."""
