"""The controller's state, the transactions that change it, and the indexes and planner views derived from it.

`State` holds the tables, `Transaction` changes them, and `build_view` makes the planner's view.
"""
