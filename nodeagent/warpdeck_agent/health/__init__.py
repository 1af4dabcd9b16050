"""Health checks of the node, its inventory, and the site's own programs."""
