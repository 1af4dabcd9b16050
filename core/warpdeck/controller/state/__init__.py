"""The controller's state, the transactions that change it, and the indexes and views that follow from it."""
