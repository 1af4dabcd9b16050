"""Run the controller: the task that owns the state, the planner, the effect runner and the background tasks.

`controller.Controller` is the entry point.
"""
