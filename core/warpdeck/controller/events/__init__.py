"""Events, effects and the decoding of node messages.

Events change the controller's state, and effects follow from them. `events.Event` and `events.Effect` are the
unions of all types, and `Outcome` is the result of one event.
"""
