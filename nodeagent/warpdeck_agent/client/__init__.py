"""The programs that run inside jobs and on the login node.

They start often, so they use the standard library only.
"""
