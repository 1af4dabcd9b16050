"""The composition root: builds store, fleet, controller and server, and runs them as one process."""
