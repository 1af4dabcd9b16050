"""Errors, file locations, and small facilities that every other package may use.

This package imports no other package of warpdeck.
"""
