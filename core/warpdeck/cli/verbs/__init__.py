"""The verbs of the command line, one module for each group of related verbs. Its VERBS are the rows of the table."""
