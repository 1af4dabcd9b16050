"""The composition root: builds the store, fleet, controller and server, and runs them as one process."""
