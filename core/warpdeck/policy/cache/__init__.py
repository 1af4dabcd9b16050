"""Data that the planner keeps from one pass to the next, because it changes little in between."""
