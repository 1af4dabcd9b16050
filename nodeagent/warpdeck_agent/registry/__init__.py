"""The table of launches on the node, and how they are queued, ended and cleaned up after."""
