"""The server of the controller's Unix socket: it authenticates, limits and answers requests."""
