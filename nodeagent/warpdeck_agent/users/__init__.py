"""Users of the node: accounts, child processes that run as a user, and the programs that jobs find on
their PATH.
"""
