"""The running controller: the task that owns the state, the planner's task, effects, and the background
tasks beside them.
"""
