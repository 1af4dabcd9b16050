"""Code that several verbs of the command line share: argument parsing, tables, terminals, completion
candidates.
"""
