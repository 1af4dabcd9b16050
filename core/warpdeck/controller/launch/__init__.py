"""Builds the messages that start jobs and steps on nodes: environment, code, hooks, MPI and training
variables.
"""
