"""The command line, `warpdeck VERB`. Each verb is a small module that is imported only when it is called, so
verbs start fast.
"""
