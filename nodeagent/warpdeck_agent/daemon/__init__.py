"""The agent's process: its socket, its connection to the controller, and its start in the background."""
