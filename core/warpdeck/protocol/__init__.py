"""Messages between clients and the controller, and the rows in the answers."""
