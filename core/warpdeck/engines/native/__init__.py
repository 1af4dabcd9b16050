"""The controller as an engine: it answers the requests of the API server from the controller's state and store.

`engine.native_engine` makes it. Every other module answers one kind of request.
"""
