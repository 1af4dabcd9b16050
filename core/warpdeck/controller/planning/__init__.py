"""Runs planning passes on a view of the state, and answers forecasts about jobs that wait or are not
submitted yet.
"""
