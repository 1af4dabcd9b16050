"""Build the messages that start jobs and steps on nodes.

The messages contain the environment, the code, the hooks, and the variables for MPI and training. The main
entry points are `build_launch` and `build_step_launch`.
"""
