"""Arrays that the planner keeps from one pass to the next, because they change little in between."""
