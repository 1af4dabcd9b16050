"""Handlers of all events.

Each handler changes the state in a transaction and returns the effects to run after the commit.
`reduce.reduce` calls the handler for an event.
"""
