"""The planner's input and output types: the view of the cluster, the settings, and the decisions."""
