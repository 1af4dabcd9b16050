"""Measurements over time, in bounded memory."""
