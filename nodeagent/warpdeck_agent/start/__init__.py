"""Starts a launch: prepares its resources, builds its environment, and orders its process from the
supervisor.
"""
