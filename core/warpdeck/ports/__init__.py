"""Interfaces between the parts of the program, and the identity of a caller.

store            the database, as the controller uses it
ports            fleet, tree cache and output files, as the controller uses them
engine           a scheduler, as the API server uses it
engine_streams   the streams between the two
"""
