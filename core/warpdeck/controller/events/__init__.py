"""Events that change the state, the effects that follow from them, and the decoding of messages from nodes
into events.
"""
