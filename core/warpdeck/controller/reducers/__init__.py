"""One function for each kind of event. Each changes the state in a transaction and returns the effects to
run after the commit.
"""
