"""Builds the rows that clients and exporters get from the state.

`serializers` makes the rows of jobs and nodes. Nothing in this package changes the state.
"""
