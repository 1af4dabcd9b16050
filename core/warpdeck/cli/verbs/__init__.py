"""The verbs of the command line, one module for each group of related verbs. `warpdeck.cli.main` imports a
module when its verb is called.
"""
